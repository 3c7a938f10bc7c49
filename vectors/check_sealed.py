"""Checks sealed-machine.json and sealed-search.json: sessions and a whole search of docs/sealed.md.

All three servers are computed at once. Shared bits have three components, each a list of words.
"""
import functools

import primitives as p
import transcript

FRAME_WORDS = 2048


def xor_words(*lists):
    return [functools.reduce(lambda a, b: a ^ b, words) for words in zip(*lists)]


def ones(lanes):
    return (1 << lanes) - 1


class Bits:
    """Shared bits: get(c) returns the words of component c (from 0), known after `depth` rounds."""

    def __init__(self, depth, words, lanes, get):
        self.depth, self.words, self.lanes, self.get = depth, words, lanes, get

    def cut(self, lanes):
        return Bits(self.depth, self.words, lanes, lambda c: [word & ones(lanes) for word in self.get(c)])

    def map(self, words, lanes, change):
        return Bits(self.depth, words, lanes, lambda c: change(self.get(c), c))


def xor(*terms):
    first = terms[0]
    return Bits(max(t.depth for t in terms), first.words, first.lanes, lambda c: xor_words(*(t.get(c) for t in terms)))


def negate(bits):
    return bits.map(bits.words, bits.lanes, lambda w, c: [word ^ (ones(bits.lanes) if c == 0 else 0) for word in w])


def spread(bit, words, lanes):
    return bit.map(words, lanes, lambda w, c: [ones(lanes) * (w[0] & 1)] * words)


class Machine:
    def __init__(self):
        self.gates = []

    def land(self, x, y, plus=None, after=0):
        """Adds an AND gate, with an XOR of `plus`, after at least `after` rounds."""
        depth = max([after] + [t.depth for t in (x, y, plus) if t]) + 1
        gate = Bits(depth, x.words, x.lanes, None)
        gate.x, gate.y, gate.plus = x, y, plus
        gate.get = lambda c: gate.z[c]
        self.gates.append(gate)
        return gate

    def run(self, zero):
        """Evaluates the circuit and returns the messages of all rounds: z of each server.

        zero(count) returns the next words of r_n for n = 1, 2, 3.
        """
        rounds = []
        for depth in range(1, max([g.depth for g in self.gates], default=0) + 1):
            message = [[], [], []]
            for gate in (g for g in self.gates if g.depth == depth):
                r = zero(gate.words)
                x, y = [gate.x.get(c) for c in range(3)], [gate.y.get(c) for c in range(3)]
                gate.z = []
                for n in range(3):
                    after = (n + 1) % 3
                    plus = gate.plus.get(n) if gate.plus else [0] * gate.words
                    z = [
                        (x[n][i] & y[n][i] ^ x[n][i] & y[after][i] ^ x[after][i] & y[n][i] ^ plus[i] ^ r[n][i] ^ r[n - 1][i])
                        & ones(gate.lanes)
                        for i in range(gate.words)
                    ]
                    gate.z.append(z)
                    message[n] += z
            rounds.append(message)
        return rounds


def add(machine, inputs, bits):
    x, y, z = inputs
    sums, saved, carry = [], None, None
    for i in range(bits):
        s, t = xor(x[i], y[i], z[i]), saved
        if i + 1 < bits:
            saved = machine.land(xor(x[i], z[i]), xor(y[i], z[i]), z[i], i)
        sums.append(xor(*(bits_of for bits_of in (s, t, carry) if bits_of)))
        if 0 < i < bits - 1:
            carry = machine.land(xor(s, carry), xor(t, carry), carry) if carry else machine.land(s, t)
    return sums


def product(machine, factors):
    while len(factors) > 1:
        pairs = [machine.land(*factors[i : i + 2]) for i in range(0, len(factors) - 1, 2)]
        factors = pairs + (factors[-1:] if len(factors) % 2 else [])
    return factors[0]


def right_is_less(machine, left, right, block):
    groups = []
    for first in range(0, len(left), block):
        l, r = left[first : first + block], right[first : first + block]
        less = machine.land(negate(r[0]), l[0])
        for i in range(1, len(l)):
            less = machine.land(negate(xor(r[i], less)), xor(l[i], less), less)
        equal = product(machine, [negate(xor(*pair)) for pair in zip(l, r)]) if first else None
        groups.append((less, equal))
    while len(groups) > 1:
        joined = []
        for i in range(0, len(groups) - 1, 2):
            (low, low_equal), (high, equal) = groups[i], groups[i + 1]
            less = machine.land(equal, low, high)
            joined.append((less, machine.land(equal, low_equal) if low_equal else None))
        groups = joined + (groups[-1:] if len(groups) % 2 else [])
    return groups[0][0]


def neighbours(bits, beyond):
    """Returns the left and right elements of all pairs. `beyond` completes an odd number."""
    if bits.words > 1:
        size = ((bits.words + 1) // 2, bits.lanes)
        end = lambda c: [ones(bits.lanes) if beyond and c == 0 else 0]
        return bits.map(*size, lambda w, c: w[::2]), bits.map(*size, lambda w, c: (w + end(c))[1::2][: size[0]])
    size = (1, (bits.lanes + 1) // 2)
    more = lambda w, c: w[0] | ((1 if beyond and c == 0 else 0) << bits.lanes)
    pick = lambda word, odd: [sum((word >> (2 * l + odd) & 1) << l for l in range(size[1]))]
    return bits.map(*size, lambda w, c: pick(w[0], 0)), bits.map(*size, lambda w, c: pick(more(w, c), 1))


def enough(machine, case, values):
    """Returns whether at least `floor` rows match, in lane 0."""
    count = [product(machine, [negate(value) for value in values[case["cost_bits"] :]])]
    while count[0].words > 1 or count[0].lanes > 1:
        total, carry = [], None
        for left, right in (neighbours(bit, False) for bit in count):
            total.append(xor(*(bit for bit in (left, right, carry) if bit)))
            if carry:
                carry = machine.land(xor(left, carry), xor(right, carry), carry)
            else:
                carry = machine.land(left, right)
        count = total + [carry]
    result = None
    for i, bit in enumerate(count):
        one = case["floor"] >> i & 1
        if result is None:
            result = bit if one else None
        elif one:
            result = machine.land(bit, result)
        else:
            result = negate(machine.land(negate(bit), negate(result)))
    return result


def winner(machine, case, values, words, lanes, reached_floor):
    index, level = [], 0
    while values[0].words > 1 or values[0].lanes > 1:
        left, right = zip(*(neighbours(value, True) for value in values))
        choice = right_is_less(machine, left, right, max(3, -(-case["bits"] // 2**level)))
        values = [machine.land(choice, xor(l, r), l) for l, r in zip(left, right)]
        index = [machine.land(choice, xor(l, r), l) for l, r in (neighbours(i, False) for i in index)] + [choice]
        level += 1
    matches = product(machine, [negate(value) for value in values[case["cost_bits"] :]])
    if reached_floor:
        matches = machine.land(matches, reached_floor)
    cost = [machine.land(matches, value) for value in values[: case["cost_bits"]]]
    word_bits = (words - 1).bit_length()
    hot, reached = matches, 1
    for bit in index[word_bits:]:
        more = min(reached, lanes - reached)
        there = machine.land(hot.cut(more), spread(bit, 1, more))
        move = lambda m: lambda c, hot=hot, there=there: [hot.get(c)[0] ^ there.get(c)[0] ^ there.get(c)[0] << m]
        hot = Bits(there.depth, 1, reached + more, move(reached))
        reached += more
    reached = 1
    for bit in index[:word_bits]:
        more = min(reached, words - reached)
        part = hot.map(more, lanes, lambda w, c, more=more: w[:more])
        there = machine.land(part, spread(bit, more, lanes))

        def split(c, hot=hot, there=there, more=more):
            old, new = hot.get(c), there.get(c)
            return xor_words(old[:more], new) + old[more:] + new

        hot = Bits(there.depth, reached + more, lanes, split)
        reached += more
    return matches, cost, hot


def from_hex(text):
    data = bytes.fromhex(text)
    assert len(data) % 8 == 0, "whole words"
    return [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]


def frames(step, words):
    parts = [words[i : i + FRAME_WORDS] for i in range(0, len(words), FRAME_WORDS)]
    header = lambda part: step.to_bytes(4, "little") + part.to_bytes(4, "little")
    return [(header(i) + b"".join(w.to_bytes(8, "little") for w in part)).hex() for i, part in enumerate(parts)]


@functools.lru_cache(None)
def key_words(key, epoch, session, tag, count):
    def derive(key, *parts):
        return p.keyed(key, b"".join(len(part).to_bytes(8, "little") + part for part in parts))

    key = derive(bytes.fromhex(key), b"transcript", epoch.to_bytes(4, "little"), bytes.fromhex(session))
    stream = p.KeyStream(derive(key, b"stream", tag.to_bytes(2, "little") + bytes(4))[:16])
    return from_hex(stream.read(0, 8 * count).hex())


def check_case(case):
    rows, k, c, top = case["rows"], case["bits"], case["cost_bits"], case["top"]
    length = case["record_bytes"]
    words = -(-rows // 64)
    lanes = -(-rows // words)
    assert len(case["records"]) == 2 * length * rows, "records"
    records = [case["records"][2 * length * row :][: 2 * length] for row in range(rows)]
    shares = [from_hex(text) for text in case["shares"]]
    machine = Machine()
    drawn = "masks" in case["randomness"]
    assert set(case["randomness"]) == ({"masks", "ahead"} if drawn else {"pair_keys", "epoch", "session"})

    # Step 1: input sharing.
    masks, values = [], []
    for n in range(3):
        assert len(shares) == 3 and len(shares[n]) == rows and all(v < 2**k for v in shares[n]), "shares"
        if drawn:
            mask = from_hex(case["randomness"]["masks"][n])
            assert len(case["randomness"]["masks"]) == 3 and all(word <= ones(lanes) for word in mask), "masks"
        else:
            keys = case["randomness"]
            mask = key_words(keys["pair_keys"][n - 1], keys["epoch"], keys["session"], 65, k * words)
        assert len(mask) == k * words, "masks"
        masks.append([word & ones(lanes) for word in mask])
        at = lambda place: shares[n][place] if place < rows else (2**k - 1 if n == 0 else 0)
        plane = lambda bit, word: sum((at(lane * words + word) >> bit & 1) << lane for lane in range(lanes))
        values.append([plane(bit, word) ^ masks[n][bit * words + word] for bit in range(k) for word in range(words)])

    def entered(n, bit):
        part = slice(bit * words, (bit + 1) * words)
        components = {n: masks[n][part], (n + 1) % 3: values[n][part], (n + 2) % 3: [0] * words}
        return Bits(0, words, lanes, lambda c: components[c])

    inputs = [[entered(n, bit) for bit in range(k)] for n in range(3)]
    sums = add(machine, inputs, k)
    assert 1 <= case["floor"] <= rows, "floor"
    reached_floor = enough(machine, case, sums) if case["floor"] > 1 else None
    winners = []
    for rank in range(top):
        if rank:
            chosen = winners[-1][2]
            sums[k - 1] = machine.land(sums[k - 1], chosen, xor(sums[k - 1], chosen))
        winners.append(winner(machine, case, sums, words, lanes, reached_floor))

    # The zero sharings in the order of the messages; those of the answers come last.
    total = sum(gate.words for gate in machine.gates) + top * (1 + -(-length // 8))
    if drawn:
        r = [from_hex(text) for text in case["randomness"]["ahead"]]
    else:
        r = [key_words(key, keys["epoch"], keys["session"], 64, total) for key in keys["pair_keys"]]
    assert len(r) == 3 and all(len(words_of) == total for words_of in r), "random words"
    used = 0

    def zero(count):
        nonlocal used
        used += count
        return [words_of[used - count : used] for words_of in r]

    rounds = machine.run(zero)
    assert len(case["frames"]) == 3, "frames"
    for n in range(3):
        back = frames(1, masks[n]) if drawn else []
        for step, message in enumerate(rounds):
            back += frames(2 + step, message[n])
        assert case["frames"][n]["to_previous"] == back, f"frames of server {n + 1} to the previous one"
        forward = frames(1, values[n]) + (frames(0, r[n]) if drawn else [])
        assert case["frames"][n]["to_next"] == forward, f"frames of server {n + 1} to the next one"
        assert len(case["frames"][n]) == 2, "frames"

    answers = [b"", b"", b""]
    assert case["selections"] is None or [len(s) for s in case["selections"]] == [top] * 3, "ranks"
    assert len(case["found"]) == top, "ranks"
    for rank, (matches, cost, hot) in enumerate(winners):
        masks_of = zero(1 + -(-length // 8))
        for n in range(3):
            plane = hot.get(n)
            chosen = [plane[row % words] >> (row // words) & 1 for row in range(rows)]
            packed = bytes(sum(bit << i for i, bit in enumerate(chosen[b : b + 8])) for b in range(0, rows, 8))
            assert case["selections"] is None or case["selections"][n][rank] == packed.hex(), "selection"
            record = 0
            for row in range(rows):
                record ^= int.from_bytes(bytes.fromhex(records[row]), "little") * chosen[row]
            word = sum((bit.get(n)[0] & 1) << i for i, bit in enumerate([matches] + cost))
            mask = [masks_of[n][i] ^ masks_of[n - 1][i] for i in range(len(masks_of[n]))]
            word ^= mask[0] & ones(c + 1)
            mask = b"".join(m.to_bytes(8, "little") for m in mask[1:])[:length]
            record ^= int.from_bytes(mask, "little")
            answers[n] += word.to_bytes(8, "little") + record.to_bytes(length, "little")
    assert case["answers"] == [answer.hex() for answer in answers], "answers"

    # The client decodes what brute force finds.
    plain = [sum(share[row] for share in shares) % 2**k for row in range(rows)]
    order = sorted((v, row) for row, v in enumerate(plain) if v < 2**c)
    order = order if len(order) >= case["floor"] else []
    for rank in range(top):
        wanted = {"cost": order[rank][0], "record": records[order[rank][1]]} if rank < len(order) else None
        assert case["found"][rank] == wanted, "found"
        size = 8 + length
        sum_of = functools.reduce(lambda a, b: a ^ b, (int.from_bytes(a[rank * size :][:size], "little") for a in answers))
        record = bytes.fromhex(wanted["record"]) if wanted else bytes(length)
        word = (2 * wanted["cost"] + 1 if wanted else 0).to_bytes(8, "little")
        assert sum_of == int.from_bytes(word + record, "little"), "the sum of the answers"
    keys_of_case = "rows bits cost_bits top floor record_bytes shares records randomness frames selections answers found"
    assert set(case) == set(keys_of_case.split()), "fields"


def check(vectors):
    assert vectors["scheme"] == "sealed-machine", "scheme"
    for case in vectors["cases"]:
        assert case["selections"] is not None, "selection"
        # Not every record is part of a sum, so records follow a rule.
        length = case["record_bytes"]
        rule = [(row + 1).to_bytes(length, "little").hex() for row in range(case["rows"])]
        assert case["records"] == "".join(rule), "records"
        check_case(case)


def check_search(v):
    """Checks one whole search: messages, handshake, frames between servers, responses, result."""
    names = "scheme max_levels rows cost_limit costs gates top digest epoch root_key records messages tau greetings session masks ahead frames responses found"
    assert set(v) == set(names.split()) and v["scheme"] == "sealed-search", "fields"
    d, rows, epoch = len(v["max_levels"]), v["rows"], v["epoch"].to_bytes(4, "little")
    assert all(len(row) == d and all(y <= r for y, r in zip(row, v["max_levels"])) for row in rows), "rows"
    assert len(v["costs"]) == len(v["gates"]) == d, "tables"
    c = (v["cost_limit"] * d).bit_length()
    k = c + d.bit_length()
    table = []
    for r, costs, gates in zip(v["max_levels"], v["costs"], v["gates"]):
        assert len(costs) == len(gates) == r + 1, "tables"
        table += [cost + (gate << c) for cost, gate in zip(costs, gates)]
    assert all(isinstance(gate, bool) for gates in v["gates"] for gate in gates), "gates"
    assert max(map(max, v["costs"])) == v["cost_limit"], "cost_limit"

    # The client's messages: shares of the table.
    messages = transcript.Messages(transcript.header_of(v, 0, bytes(48), b"sealed", 3), 3, v["messages"])
    assert messages.share_commitments == b"" and not messages.openings and v["tau"] == messages.tau().hex(), "tau"
    shares = []
    for payload in messages.payloads:
        numbers = int.from_bytes(payload[1:], "little")
        assert payload[0] == v["top"] and len(payload) == 1 + -(-k * len(table) // 8), "payload"
        assert numbers >> k * len(table) == 0, "padding"
        shares.append([numbers >> k * i & ones(k) for i in range(len(table))])
    assert [sum(parts) % 2**k for parts in zip(*shares)] == table, "shares"

    # The handshake.
    keys = transcript.derive(bytes.fromhex(v["root_key"]), b"transcript", epoch, messages.tau())
    key_check = transcript.stream(keys, "key check").read(0, 16)
    nonces = b""
    assert len(v["greetings"]) == 3, "greetings"
    for n, greeting in enumerate(map(bytes.fromhex, v["greetings"]), 1):
        said = b"ifonly" + bytes([2, n]) + bytes.fromhex(v["digest"]) + epoch + messages.tau() + bytes([v["top"]]) + key_check
        assert greeting[:-32] == said, "greeting"
        nonces += greeting[-32:]
    assert v["session"] == p.derive_key("ifonly session v1", messages.tau() + nonces).hex(), "session"

    # The session, on the sums over all rows and the encoded records.
    starts = [sum(r + 1 for r in v["max_levels"][:j]) for j in range(d)]
    sums = [[sum(share[starts[j] + row[j]] for j in range(d)) % 2**k for row in rows] for share in shares]
    root, digest = bytes.fromhex(v["root_key"]), bytes.fromhex(v["digest"])
    assert len(v["records"]) == len(rows), "records"
    sealed = []
    for row, record in enumerate(map(bytes.fromhex, v["records"])):
        key = transcript.derive(root, b"record", epoch, digest, row.to_bytes(8, "little"))[:16]
        sealed.append(transcript.seal(record, key).hex())
    assert len({len(record) for record in sealed}) == 1, "records"
    responses = [bytes.fromhex(response) for response in v["responses"]]
    assert [response[:16] for response in responses] == [key_check] * 3, "key check"
    plain = [sum(entry[row] for entry in sums) % 2**k for row in range(len(rows))]
    order = sorted((value, row) for row, value in enumerate(plain) if value < 2**c)[: v["top"]]
    assert v["found"] == [{"cost": cost, "record": v["records"][row]} for cost, row in order], "found"
    found = [{"cost": cost, "record": sealed[row]} for cost, row in order]
    check_case({
        "rows": len(rows), "bits": k, "cost_bits": c, "top": v["top"], "floor": 1, "record_bytes": len(sealed[0]) // 2,
        "shares": ["".join(value.to_bytes(8, "little").hex() for value in share) for share in sums],
        "records": "".join(sealed), "randomness": {"masks": v["masks"], "ahead": v["ahead"]}, "frames": v["frames"],
        "selections": None, "answers": [response[16:].hex() for response in responses],
        "found": found + [None] * (v["top"] - len(found)),
    })
