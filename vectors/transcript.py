"""Checks transcript.json (messages, keyed randomness, orders, records) and failures.json."""
import functools

import primitives as p
from schemes import is_prime, usual_points

LABELS = {"pad": 1, "rho": 2, "sigma": 3, "mu": 4, "order": 5, "record pad": 6, "key check": 7, "lifted": 8}


def derive(key, *parts):
    return p.keyed(key, b"".join(len(part).to_bytes(8, "little") + part for part in parts))


def label(name):
    """Encodes a name such as "pad 1 2", "order 3" or "rho": a tag and two numbers."""
    words = name.split()
    numbers = [int(word) for word in words if word.isdigit()]
    tag = LABELS[" ".join(word for word in words if not word.isdigit())]
    return b"".join(n.to_bytes(2, "little") for n in ([tag] + numbers + [0, 0])[:3])


@functools.lru_cache(None)
def stream(keys, name):
    return p.KeyStream(derive(keys, b"stream", label(name))[:16])


def xor(a, b):
    return bytes(x ^ y for x, y in zip(a, b))


# -- messages


@functools.lru_cache(None)
def commitment(kind, header, server, payload, blinding):
    def wide(name, data):
        return p.derive_key("ifonly commitment v1", len(name).to_bytes(8, "little") + name + data, 64)

    h = p.point_from_uniform(wide(b"h", b""))
    data = len(header).to_bytes(8, "little") + header + bytes([server]) + payload
    m = int.from_bytes(wide(kind, data), "little") % p.GROUP_ORDER
    return p.point_compress(p.point_add(p.point_times(p.BASE, m), p.point_times(h, blinding)))


def opens(kind, header, server, payload, blinding, commitments):
    scalar = int.from_bytes(blinding, "little")
    assert scalar < p.GROUP_ORDER, "blinding"
    assert commitment(kind, header, server, payload, scalar) == commitments[32 * (server - 1) :][:32], "commitments"


def header_of(v, phase, parent, scheme, servers):
    header = b"ifonly\x03" + bytes([phase]) + v["epoch"].to_bytes(4, "little") + bytes.fromhex(v["digest"]) + parent
    return header + bytes([len(scheme)]) + scheme + bytes([servers]) + bytes(range(1, servers + 1))


class Messages:
    """The messages to all servers. Checks everything before the payload, and the commitments."""

    def __init__(self, header, servers, texts):
        self.header, self.sent, self.share_commitments, self.openings = header, [bytes.fromhex(text) for text in texts], b"", []
        assert len(self.sent) == servers, "messages"
        start = len(header) + 1
        self.commitments = self.sent[0][start:][: 32 * servers]
        self.payloads = []
        for server, message in enumerate(self.sent, 1):
            assert message[:start] == header + bytes([server]), "header"
            rest = message[start:]
            assert rest[: 32 * servers] == self.commitments, "commitments"
            blinding, rest = rest[32 * servers :][:32], rest[32 * servers + 32 :]
            share_commitments, rest = rest[1:][: 32 * rest[0]], rest[1 + 32 * rest[0] :]
            assert server == 1 or share_commitments == self.share_commitments, "share_commitments"
            self.share_commitments, count, rest = share_commitments, rest[0], rest[1:]
            if count:
                # The payload commitments of the first phase, and the blinding of the share
                # commitment of this server.
                self.openings.append((rest[: 32 * count], rest[32 * count :][:32]))
                rest = rest[32 * count + 32 :]
            self.payloads.append(rest)
            opens(b"payload", header, server, rest, blinding, self.commitments)

    def tau(self):
        return p.derive_key("ifonly transcript v1", self.header + self.commitments + self.share_commitments)


def ticket(v, scheme, tau):
    return derive(bytes.fromhex(v["root_key"]), b"ticket", v["epoch"].to_bytes(4, "little"), scheme, tau)[:16]


def check_messages(v):
    messages = Messages(header_of(v, 0, bytes(48), b"baseline", 2), 2, v["messages"])
    assert v["payloads"] == [payload.hex() for payload in messages.payloads] and len(v["payloads"]) == 2, "payloads"
    assert messages.share_commitments == b"" and not messages.openings, "share_commitments"
    assert v["tau"] == messages.tau().hex(), "tau"
    assert v["ticket"] == ticket(v, b"baseline", messages.tau()).hex(), "ticket"


def check_two_phases(v):
    one = v["two_phases"]
    assert set(one) == {"committed", "first", "tau", "ticket", "second", "second_tau"}, "two_phases"
    first = Messages(header_of(v, 0, bytes(48), b"two-phase", 3), 3, one["first"])
    assert len(first.share_commitments) == 96 and not first.openings, "share_commitments"
    assert one["tau"] == first.tau().hex() and one["ticket"] == ticket(v, b"two-phase", first.tau()).hex(), "ticket"
    parent = bytes.fromhex(one["tau"] + one["ticket"])
    second = Messages(header_of(v, 1, parent, b"two-phase", 3), 3, one["second"])
    assert second.share_commitments == first.share_commitments and len(second.openings) == len(one["committed"]) == 3, "share_commitments"
    for server, ((commitments, blinding), part) in enumerate(zip(second.openings, one["committed"]), 1):
        assert commitments == first.commitments, "first commitments"
        opens(b"promise", first.header, server, bytes.fromhex(part), blinding, second.share_commitments)
    assert [len(payload) for payload in first.payloads + second.payloads] == [4] * 6, "payloads"
    assert one["second_tau"] == second.tau().hex(), "second_tau"


# -- server randomness


def field_element(keys, name, limit, shift, position):
    mask = (1 << (limit - 1).bit_length()) - 1
    width = max(-(-mask.bit_length() // 8), 1)
    width = width if width <= 4 else 8
    drawn = int.from_bytes(stream(keys, name).read(position * width, width), "little") & mask
    attempt = 0
    while drawn >= limit:
        block = stream(keys, name).block(2**127 + position * 2**32 + attempt)
        drawn, attempt = int.from_bytes(block[:8], "little") & mask, attempt + 1
    return drawn + shift


def check_streams(v, keys):
    assert v["key_check"] == stream(keys, "key check").read(0, 16).hex(), "key_check"
    for one in v["streams"]:
        assert one["label"] == label(one["purpose"]).hex(), "label"
        assert one["bytes"] == stream(keys, one["purpose"]).read(0, 40).hex(), "stream"
    assert len(v["streams"]) == 9 and len(v["elements"]) == 6, "streams"
    for one in v["elements"]:
        q, d_min = one["q"], one["d_min"]
        assert is_prime(q) and len(one) == 7, "elements"
        limits = {"rho": (q - 1, 1), "mu": (d_min, 0)}
        for name in one.keys() - {"q", "d_min"}:
            limit, shift = limits.get(name, (q, 0))
            assert one[name] == [field_element(keys, name, limit, shift, i) for i in range(8)], name


def fisher_yates(items, words):
    place = 0
    for last in range(len(items) - 1, 0, -1):
        n = last + 1
        while True:
            product = int.from_bytes(words.read(4 * place, 4), "little") * n
            place += 1
            if product % 2**32 >= 2**32 % n:
                break
        choice = product >> 32
        items[last], items[choice] = items[choice], items[last]
    return items


@functools.lru_cache(None)
def order(keys, rows):
    if rows <= 1 << 16:
        return fisher_yates(list(range(rows)), stream(keys, "order 0"))
    buckets = [[] for _ in range(256)]
    for row, digit in enumerate(stream(keys, "order 0").read(0, rows)):
        buckets[digit].append(row)
    return [row for b, bucket in enumerate(buckets) for row in fisher_yates(bucket, stream(keys, f"order {b + 1}"))]


def check_orders(v, keys):
    assert len(v["orders"]) == 3, "orders"
    for one in v["orders"]:
        # Reject a falsified number of rows at once; a large order would take a minute.
        assert one["rows"] in (10, 5000, 100_000), "rows"
        rows = order(keys, one["rows"])
        assert one["first"] == rows[:8], "first"
        assert one["hash"] == p.blake3(b"".join(row.to_bytes(4, "little") for row in rows)).hex(), "hash"


# -- records


def seal(record, key):
    body = record + bytes(8)
    body = xor(body, p.derive_key("ifonly record mask v1", key, len(body)))
    return body + xor(p.derive_key("ifonly record digest v1", body, 16), key)


def check_fingerprints(entries):
    assert len(entries) == 3, "fingerprints"
    for one in entries:
        assert set(one) == {"key_epoch", "root_key", "header", "fingerprint"}, "fingerprints"
        epoch = one["key_epoch"]
        digits = derive(bytes.fromhex(one["root_key"]), b"fingerprint", epoch.to_bytes(4, "little"))[:16].hex()
        assert one["header"] == f"{epoch}={digits}", "header"
        assert one["fingerprint"] == "-".join(digits[i : i + 4] for i in range(0, 32, 4)), "fingerprint"


def check_records(v, root):
    epoch, digest = v["epoch"].to_bytes(4, "little"), bytes.fromhex(v["digest"])
    keys = [derive(root, b"record", epoch, digest, row.to_bytes(8, "little"))[:16] for row in range(11)]
    encoded = [seal(bytes.fromhex(record), key) for record, key in zip(v["records"], keys)]
    assert len(v["records"]) == 11 and v["encoded"] == [one.hex() for one in encoded], "encoded"
    return encoded


def asked(rows, length, threshold, redundant, servers):
    """Returns the number of asked servers, of stripes, and whether shares are XOR shares."""

    def sizes(count):
        stripes = max(1, count - threshold - redundant)
        binary = count == threshold + 1
        query = -(-rows // 8) if binary else rows * stripes
        return count * (query - (-length // stripes)), count, stripes, binary

    return min(map(sizes, [servers] if redundant else range(threshold + 1, servers + 1)))[1:]


def check_record_query(one, keys, encoded):
    all_servers, threshold, row = one["servers"], one["T"], one["row"]
    rows, length = len(encoded), len(encoded[0])
    servers, stripes, binary = asked(rows, length, threshold, one["S"] + 2 * one["B"], all_servers)
    size = -(-length // stripes)
    draws, queries, answers = bytes.fromhex(one["draws"]), [], []
    assert row is None or 0 <= row < rows, "row"
    if binary:
        size = -(-rows // 8)
        assert one["S"] == one["B"] == 0 and len(draws) == threshold * size, "draws"
        subsets = [int.from_bytes(draws[i : i + size], "little") % (1 << rows) for i in range(0, len(draws), size)]
        last = functools.reduce(int.__xor__, subsets, 0 if row is None else 1 << row)
        pads = [stream(keys, f"record pad {j}").read(0, length) for j in range(threshold)]
        for chosen, pad in zip([*subsets, last], [*pads, functools.reduce(xor, pads)]):
            queries.append(chosen.to_bytes(size, "little"))
            total = pad
            for position in range(rows):
                total = xor(total, encoded[position]) if chosen >> position & 1 else total
            answers.append(total)
        assert functools.reduce(xor, answers) == (bytes(length) if row is None else encoded[row]), "record"
    else:
        assert len(draws) == rows * stripes * threshold, "draws"
        noise = [draws[i : i + threshold] for i in range(0, len(draws), threshold)]
        for alpha in range(1, servers + 1):
            powers = [p.gf_power(alpha, j) for j in range(threshold + stripes)]
            query = [functools.reduce(lambda s, pz: s ^ p.gf_multiply(*pz), zip(powers, zs), 0) for zs in noise]
            if row is not None:
                for stripe in range(stripes):
                    query[row * stripes + stripe] ^= powers[threshold + stripe]
            total = bytes(size)
            for place, factor in enumerate(query):
                stripe = encoded[place // stripes][place % stripes * size :][:size].ljust(size, b"\0")
                total = bytes(t ^ p.gf_multiply(factor, b) for t, b in zip(total, stripe))
            for j in range(threshold):
                pad = stream(keys, f"record pad {j}").read(0, size)
                total = bytes(t ^ p.gf_multiply(powers[j], b) for t, b in zip(total, pad))
            queries.append(bytes(query))
            answers.append(total)
    not_asked = [None] * (all_servers - servers)
    assert one["queries"] == [query.hex() for query in queries] + not_asked, "queries"
    assert one["answers"] == [answer.hex() for answer in answers], "answers"


def check(v):
    names = "payloads messages tau ticket two_phases root_key epoch digest fingerprints key_check streams elements orders records encoded record_queries usual_points"
    assert set(v) == set(names.split()), "fields"
    check_messages(v)
    check_two_phases(v)
    root = bytes.fromhex(v["root_key"])
    keys = derive(root, b"transcript", v["epoch"].to_bytes(4, "little"), bytes.fromhex(v["tau"]))
    check_fingerprints(v["fingerprints"])
    check_streams(v, keys)
    encoded = check_records(v, root)
    assert len(v["record_queries"]) == 5, "record_queries"
    for one in v["record_queries"]:
        assert set(one) == {"servers", "T", "S", "B", "row", "draws", "queries", "answers"}, "record_queries"
        check_record_query(one, keys, encoded)
    usual = v["usual_points"]
    assert is_prime(usual["q"]) and usual["points"] == usual_points(usual["q"], 5), "usual_points"
    check_orders(v, keys)


# -- input that must be refused


def check_failure(one):
    kind, q = one["kind"], one["q"]
    if kind == "composite q":
        a, b = one["factors"]
        assert min(a, b) > 1 and a * b == q, "q"
        return
    assert is_prime(q), "q"
    if kind.startswith("alpha"):
        expected = {"alpha zero": ([0, 250], [1, 251]), "alpha repeated": ([250, -1],)}
        assert q == 251 and one["alphas"] in expected[kind], "alphas"
        return
    bits, elements = (q - 1).bit_length(), one["elements"]
    size = -(-bits * elements // 8)
    payload = {
        "non-reduced element": (((1 << bits) - 1) << bits * (elements - 1)).to_bytes(size, "little"),
        "too long": bytes(size + 1),
        "too short": bytes(size - 1),
        "filling": bytes(size - 1) + b"\x80",
    }[kind]
    assert bits * elements % 8, "elements"
    assert bytes.fromhex(one["payload"]) == payload, "payload"


def check_failures(v):
    assert set(v) == {"failures"} and len(v["failures"]) == 16, "failures"
    for one in v["failures"]:
        check_failure(one)
