"""transcript.json and failures.json: messages, commitments, keyed randomness, orders, records; what must be refused."""
import functools

import primitives as p
from schemes import is_prime, usual_points

LABELS = {"pad": 1, "rho": 2, "sigma": 3, "mu": 4, "order": 5, "record pad": 6, "key check": 7}


def derive(key, *parts):
    return p.keyed(key, b"".join(len(part).to_bytes(8, "little") + part for part in parts))


def label(name):
    """Of "pad 1 2", "order 3", "rho": a tag and two numbers."""
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
def commitment(header, server, payload, blinding):
    def wide(name, data):
        return p.derive_key("ifonly commitment v1", len(name).to_bytes(8, "little") + name + data, 64)

    h = p.point_from_uniform(wide(b"h", b""))
    data = len(header).to_bytes(8, "little") + header + bytes([server]) + payload
    m = int.from_bytes(wide(b"payload", data), "little") % p.GROUP_ORDER
    return p.point_compress(p.point_add(p.point_times(p.BASE, m), p.point_times(h, blinding)))


def check_messages(v):
    header = b"ifonly\x01\x00" + v["epoch"].to_bytes(4, "little") + bytes.fromhex(v["digest"]) + bytes(32)
    header += b"\x08baseline" + b"\x02\x01\x02"
    messages = [bytes.fromhex(message) for message in v["messages"]]
    assert len(messages) == len(v["payloads"]) == 2, "messages"
    commitments = messages[0][len(header) + 1 :][:64]
    for number, (message, payload) in enumerate(zip(messages, v["payloads"])):
        payload, server = bytes.fromhex(payload), bytes([number + 1])
        blinding = message[len(header) + 65 :][:32]
        assert message == header + server + commitments + blinding + payload, "messages"
        scalar = int.from_bytes(blinding, "little")
        assert scalar < p.GROUP_ORDER, "blinding"
        assert commitment(header, number + 1, payload, scalar) == commitments[32 * number :][:32], "commitments"
    assert bytes.fromhex(v["tau"]) == p.derive_key("ifonly transcript v1", header + commitments), "tau"


# -- the servers' randomness


def symbol(keys, name, limit, shift, position):
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
    assert len(v["streams"]) == 9 and len(v["symbols"]) == 6, "streams"
    for one in v["symbols"]:
        q, d_min = one["q"], one["d_min"]
        assert is_prime(q) and len(one) == 7, "symbols"
        limits = {"rho": (q - 1, 1), "mu": (d_min, 0)}
        for name in one.keys() - {"q", "d_min"}:
            limit, shift = limits.get(name, (q, 0))
            assert one[name] == [symbol(keys, name, limit, shift, i) for i in range(8)], name


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
        # A falsified number of rows is not worth a minute.
        assert one["rows"] in (10, 5000, 100_000), "rows"
        rows = order(keys, one["rows"])
        assert one["first"] == rows[:8], "first"
        assert one["hash"] == p.blake3(b"".join(row.to_bytes(4, "little") for row in rows)).hex(), "hash"


# -- records


def seal(record, key):
    body = record + bytes(8)
    body = xor(body, p.derive_key("ifonly record mask v1", key, len(body)))
    return body + xor(p.derive_key("ifonly record digest v1", body, 16), key)


def check_records(v, root):
    epoch, digest = v["epoch"].to_bytes(4, "little"), bytes.fromhex(v["digest"])
    keys = [derive(root, b"record", epoch, digest, row.to_bytes(8, "little"))[:16] for row in range(11)]
    sealed = [seal(bytes.fromhex(record), key) for record, key in zip(v["records"], keys)]
    assert len(v["records"]) == 11 and v["sealed"] == [one.hex() for one in sealed], "sealed"
    return sealed


def check_record_query(one, keys, sealed):
    servers, threshold, row = one["servers"], one["T"], one["row"]
    rows, length = len(sealed), len(sealed[0])
    stripes = servers - threshold - one["S"] - 2 * one["B"]
    assert stripes >= 1, "servers"
    size = -(-length // stripes)
    draws, queries, answers = bytes.fromhex(one["draws"]), [], []
    assert row is None or 0 <= row < rows, "row"
    if servers == 2 and threshold == 1:
        assert one["S"] == one["B"] == 0 and len(draws) == -(-rows // 8), "draws"
        subset = int.from_bytes(draws, "little") % (1 << rows)
        for chosen in (subset, subset ^ (0 if row is None else 1 << row)):
            queries.append(chosen.to_bytes(len(draws), "little"))
            total = bytes(length)
            for position in range(rows):
                total = xor(total, sealed[position]) if chosen >> position & 1 else total
            answers.append(xor(total, stream(keys, "record pad 0").read(0, length)))
        assert xor(*answers) == (bytes(length) if row is None else sealed[row]), "record"
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
                stripe = sealed[place // stripes][place % stripes * size :][:size].ljust(size, b"\0")
                total = bytes(t ^ p.gf_multiply(factor, b) for t, b in zip(total, stripe))
            for j in range(threshold):
                pad = stream(keys, f"record pad {j}").read(0, size)
                total = bytes(t ^ p.gf_multiply(powers[j], b) for t, b in zip(total, pad))
            queries.append(bytes(query))
            answers.append(total)
    assert one["queries"] == [query.hex() for query in queries], "queries"
    assert one["answers"] == [answer.hex() for answer in answers], "answers"


def check(v):
    names = "payloads messages tau root_key epoch digest key_check streams symbols orders records sealed record_queries usual_points"
    assert set(v) == set(names.split()), "fields"
    check_messages(v)
    root = bytes.fromhex(v["root_key"])
    keys = derive(root, b"transcript", v["epoch"].to_bytes(4, "little"), bytes.fromhex(v["tau"]))
    check_streams(v, keys)
    sealed = check_records(v, root)
    assert len(v["record_queries"]) == 5, "record_queries"
    for one in v["record_queries"]:
        assert set(one) == {"servers", "T", "S", "B", "row", "draws", "queries", "answers"}, "record_queries"
        check_record_query(one, keys, sealed)
    usual = v["usual_points"]
    assert is_prime(usual["q"]) and usual["points"] == usual_points(usual["q"], 5), "usual_points"
    check_orders(v, keys)


# -- what must be refused


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
    bits, symbols = (q - 1).bit_length(), one["symbols"]
    size = -(-bits * symbols // 8)
    payload = {
        "non-reduced symbol": (((1 << bits) - 1) << bits * (symbols - 1)).to_bytes(size, "little"),
        "too long": bytes(size + 1),
        "too short": bytes(size - 1),
        "filling": bytes(size - 1) + b"\x80",
    }[kind]
    assert bits * symbols % 8, "symbols"
    assert bytes.fromhex(one["payload"]) == payload, "payload"


def check_failures(v):
    assert set(v) == {"failures"} and len(v["failures"]) == 16, "failures"
    for one in v["failures"]:
        check_failure(one)
