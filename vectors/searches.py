"""Checks searches.json: whole searches from the messages to the result.

The checker takes the client's randomness from the messages: it interpolates the shares and compares
them with the user's secret. It computes every response from rows, records, root key and message.
Then it decodes the responses as a client does.
"""
import functools
import itertools

import primitives as p
import signature
from schemes import Query, interpolate, usual_points, used_fields
from transcript import Messages, asked, derive, opens, order, seal, stream, field_element, xor

TEXT_LENGTH = 10


class Failed(Exception):
    """A step has failed; the text is the name of the error."""


def demand(condition, error):
    if not condition:
        raise Failed(error)


# -- packed field elements


def pack(q, elements):
    bits = (q - 1).bit_length()
    total = sum(element << bits * place for place, element in enumerate(elements))
    return total.to_bytes(-(-bits * len(elements) // 8), "little")


def unpack(q, data, count):
    """Returns the field elements, or None if the bytes are no packing of `count` elements."""
    bits, total = (q - 1).bit_length(), int.from_bytes(data, "little")
    elements = [total >> bits * place & (1 << bits) - 1 for place in range(count)]
    packed = len(data) == -(-bits * count // 8) and total >> bits * count == 0
    return elements if packed and all(element < q for element in elements) else None


def pack_words(q, p, elements):
    """Packs the gates and costs of a lifted answer: one 32-bit word per row."""
    shift = 32 - p.bit_length()
    words = [cost | gate << shift for gate, cost in zip(elements[::2], elements[1::2])]
    return b"".join(word.to_bytes(4, "little") for word in words)


def unpack_words(q, p, data, count):
    """Returns gates and costs, or None if the bytes are no packing of `count` elements."""
    shift, elements = 32 - p.bit_length(), []
    for place in range(0, len(data), 4):
        word = int.from_bytes(data[place : place + 4], "little")
        elements += [word >> shift, word & (1 << shift) - 1]
    reduced = all(gate < p for gate in elements[::2]) and all(cost < q for cost in elements[1::2])
    return elements if len(data) == 2 * count and reduced else None


def lifted_numbers(keys, q, p, row):
    """Returns rho, z, sigma and z' of a stored row."""
    source = stream(keys, "lifted")
    block, inside = divmod(row, 64)

    def word(index, attempt):
        if attempt < 0:
            return int.from_bytes(source.read(768 * block + 256 * index + 4 * inside, 4), "little")
        return int.from_bytes(source.block((1 << 127) + (row << 32) + attempt)[4 * index :][:4], "little")

    def first(index, read):
        drawn = (read(word(index, attempt)) for attempt in itertools.count(-1))
        return next(number for number in drawn if number is not None)

    def element(word):
        number = word & (1 << (q - 1).bit_length()) - 1
        return number if number < q else None

    def halves(word):
        numbers = []
        for half, n in ((word & 0xFFFF, p - 1), (word >> 16, p)):
            number, rest = divmod(half * n, 1 << 16)
            if rest < (1 << 16) % n:
                return None
            numbers.append(number)
        return 1 + numbers[0], numbers[1]

    rho, z = first(2, halves)
    return rho, z, first(0, element), first(1, element)


# -- GF(2^8)

EXP = [1]
for _ in range(254):
    EXP.append(p.gf_multiply(EXP[-1], 3))
LOG = {value: exponent for exponent, value in enumerate(EXP)}


def times(a, b):
    return EXP[(LOG[a] + LOG[b]) % 255] if a and b else 0


def power(a, exponent):
    return EXP[LOG[a] * exponent % 255]


@functools.lru_cache(None)
def basis(points):
    """Returns, by point, the coefficients of the polynomial that is 1 there and 0 at the others."""
    polynomials = []
    for a in points:
        coefficients = [1]
        for b in points:
            if b != a:
                inverse = power(a ^ b, 254)
                shifted = [0] + coefficients
                scaled = [times(c, b) for c in coefficients] + [0]
                coefficients = [times(c ^ e, inverse) for c, e in zip(shifted, scaled)]
        polynomials.append(coefficients)
    return polynomials


def coefficients(columns):
    """Returns, by power, that coefficient of the polynomials through the columns."""
    polynomials = basis(tuple(point for point, _ in columns))
    total = [bytes(len(columns[0][1])) for _ in columns]
    for polynomial, (_, data) in zip(polynomials, columns):
        total = [xor(t, bytes(times(c, byte) for byte in data)) for t, c in zip(total, polynomial)]
    return total


def evaluate(polynomials, point):
    total = bytes(len(polynomials[0]))
    for exponent, data in enumerate(polynomials):
        total = xor(total, bytes(times(power(point, exponent), byte) for byte in data))
    return total


# -- error correction


def agreed(columns, need, most, fits):
    """Returns `need` columns on common polynomials, and the servers with other answers.

    `fits` says whether columns agree with the first `need` of them.
    """
    demand(len(columns) >= need, "too few answers")
    for count in range((len(columns) - need) // 2 + 1):
        for wrong in itertools.combinations(columns, count):
            kept = [column for server, column in columns.items() if server not in wrong]
            if fits(kept[:need], kept[need:]):
                demand(count <= most, "too many wrong answers")
                return kept[:need], list(wrong)
    raise Failed("too many wrong answers")


# -- record fetch


class Fetch:
    """The sizes of a record fetch."""

    def __init__(self, query, length):
        params = query.params
        self.threshold, self.lying, self.M, self.length = params["threshold"], params["lying"], query.M, length + 24
        redundant = params["silent"] + 2 * params["lying"]
        self.servers, self.stripes, self.binary = asked(self.M, self.length, self.threshold, redundant, query.servers)
        self.size = -(-self.length // self.stripes)
        self.query_length = -(-self.M // 8) if self.binary else self.M * self.stripes

    def wanted(self, payloads):
        """Returns the wanted position, or None for a dummy query; checks all payloads."""
        assert all(len(payload) == self.query_length for payload in payloads), "payload"
        if self.binary:
            assert all(int.from_bytes(payload, "little") >> self.M == 0 for payload in payloads), "payload"
            flipped = int.from_bytes(functools.reduce(xor, payloads), "little")
            assert flipped & flipped - 1 == 0, "payload"
            return flipped.bit_length() - 1 if flipped else None
        columns = list(zip(range(1, self.servers + 1), payloads))
        need = self.threshold + self.stripes
        terms = coefficients(columns[:need])
        assert all(evaluate(terms, point) == payload for point, payload in columns[need:]), "payload"
        # Above the noise, entry (position, stripe) has a 1 at its own power, if it is wanted.
        expected = lambda row: [
            bytes(int((place // self.stripes, place % self.stripes) == (row, stripe)) for place in range(self.query_length))
            for stripe in range(self.stripes)
        ]
        found = [row for row in [None, *range(self.M)] if terms[self.threshold :] == expected(row)]
        assert len(found) == 1, "payload"
        return found[0]

    def factor(self, payload, position, stripe):
        if self.binary:
            return payload[position // 8] >> position % 8 & 1
        return payload[position * self.stripes + stripe]

    def answer(self, server, payload, records, keys):
        """Returns the answer over the encoded records in the order of the positions."""
        total = bytes(self.size)
        for position, record in enumerate(records):
            for stripe in range(self.stripes):
                part = record[stripe * self.size :][: self.size].ljust(self.size, b"\0")
                factor = self.factor(payload, position, stripe)
                total = xor(total, bytes(times(factor, byte) for byte in part))
        for j in range(self.threshold):
            pad = stream(keys, f"record pad {j}").read(0, self.size)
            factor = int(server in (j + 1, self.threshold + 1)) if self.binary else power(server, j)
            total = xor(total, bytes(times(factor, byte) for byte in pad))
        return total

    def decode(self, answers):
        """Returns the encoded record and the servers with wrong answers, from 0."""
        columns = {n: (n + 1, answer) for n, answer in answers.items()}
        need = self.threshold + self.stripes

        def fits(kept, others):
            return not others or all(evaluate(coefficients(kept), point) == data for point, data in others)

        kept, wrong = agreed(columns, need, self.lying, fits)
        if self.binary:
            return functools.reduce(xor, [answer for _, answer in kept]), wrong
        return b"".join(coefficients(kept)[self.threshold :])[: self.length], wrong


def open_record(encoded):
    body, last = encoded[:-16], encoded[-16:]
    key = xor(last, p.derive_key("ifonly record digest v1", body, 16))
    record = xor(body, p.derive_key("ifonly record mask v1", key, len(body)))
    demand(record[-8:] == bytes(8), "not a record")
    return record[:-8]


def texts(text, count):
    """Returns the texts of a record and what follows them."""
    found = []
    for _ in range(count):
        length = int.from_bytes(text[:2], "little")
        found.append(text[2:][:length].decode())
        text = text[2 + length :]
    return found, text


# -- searches


class Search(Query):
    """One search. Servers are counted from 0 here, and from 1 in messages and results."""

    def __init__(self, entry):
        secret, params = used_fields(entry["scheme"])
        fields = {"scheme", "params", "k", "bound", "q", "alphas", "rows", "records", "root_key", "key_epoch"}
        fields |= {"manifest_digest", "order", "ticket", "steps", "result"} | secret
        # check_modulus says whether p must be there.
        assert set(entry) - {"signer", "p"} == fields and set(entry["params"]) == params, "fields"
        self.signer = None
        super().__init__(entry["scheme"], entry)
        self.root, self.digest = bytes.fromhex(self.root_key), bytes.fromhex(self.manifest_digest)
        self.epoch = self.key_epoch.to_bytes(4, "little")
        self.lying_servers = set()
        self.doubtful = False

    # -- the institution
    def check_records(self):
        """Checks that the records hold the rows' levels as texts, and their signatures."""
        records = [bytes.fromhex(record) for record in self.records]
        assert len(records) == self.M, "records"
        for row, record in zip(self.rows, records):
            found, rest = texts(record[:TEXT_LENGTH], self.d)
            assert found == [str(level) for level in row] and not any(rest), "records"
            assert len(record) == TEXT_LENGTH + (64 if self.signer else 0), "records"
        if self.signer:
            self.check_signatures(records)
        self.fetch = Fetch(self, len(records[0]))
        keys = [derive(self.root, b"record", self.epoch, self.digest, row.to_bytes(8, "little"))[:16] for row in range(self.M)]
        self.encoded = [seal(record, key) for record, key in zip(records, keys)]

    def check_signatures(self, records):
        signer = self.signer
        assert set(signer) == set("signing_key public_key name version bundle_id schema forged".split()), "signer"
        seed = bytes.fromhex(signer["signing_key"])
        assert signer["public_key"] == public_key(seed).hex(), "public_key"
        assert type(signer["forged"]) is bool, "forged"
        for record in records:
            # A forged record has the signature of the text whose last byte is 1.
            text = record[: TEXT_LENGTH - 1] + bytes([signer["forged"]])
            assert record[TEXT_LENGTH:] == sign(seed, self.signed(text)), "signature"

    def signed(self, text):
        parts = [self.signer[field].encode() for field in ("name", "version")]
        lengths = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        subject = p.derive_key("ifonly signed records v2", lengths + bytes.fromhex(self.signer["bundle_id"]) + self.signer["schema"].encode())
        return b"ifonly record v1" + subject + text

    # -- messages
    def header(self, phase, servers, parent):
        header = b"ifonly\x03" + bytes([phase]) + self.epoch + self.digest + parent
        scheme = self.name.encode()
        return header + bytes([len(scheme)]) + scheme + bytes([servers]) + bytes(range(1, servers + 1))

    def committed(self, shares):
        """Returns the part of a server's shares in phase 1 that phase 0 commits to."""
        return pack(self.q, [element for slot in shares[1:] for element in slot])

    def check_payloads(self, phase, payloads, vectors):
        """Checks that the payloads are shares of the secret; returns them and r."""
        q, need = self.q, self.params["threshold"] + 1
        if self.p:
            return self.check_lifted_payloads(payloads, vectors), None
        lengths = [len(vector) for vector in vectors]
        if self.params["verified"]:
            lengths = lengths * 2 + [1]
        elements = [unpack(q, payload, sum(lengths)) for payload in payloads]
        assert all(elements), "payload"
        columns = list(zip(self.alphas, elements))
        assert all(interpolate(q, columns[:need], point) == values for point, values in columns[need:]), "payload"
        shared, r = interpolate(q, columns[:need], 0), None
        if self.params["verified"]:
            r = shared[-1]
            assert r, "r"
            vectors = vectors + [[r * s for s in vector] for vector in vectors] + [[r]]
        assert shared == [s % q for vector in vectors for s in vector], "payload"
        ends = list(itertools.accumulate(lengths))
        return [[one[end - length : end] for length, end in zip(lengths, ends)] for one in elements], r

    def check_lifted_payloads(self, payloads, vectors):
        """Checks the two streams: all vectors but the last in F_q, and the last in F_p."""
        count = sum(len(vector) for vector in vectors[:-1])
        length = -(-(self.q - 1).bit_length() * count // 8)
        shares = []
        for data in payloads:
            cost = unpack(self.q, data[:length], count)
            gate = unpack(self.p, data[length:], len(vectors[-1]))
            assert cost and gate, "payload"
            ends = list(itertools.accumulate(len(vector) for vector in vectors[:-1]))
            shares.append([cost[end - len(vector) : end] for vector, end in zip(vectors, ends)] + [gate])
        for slot, vector in enumerate(vectors):
            m = self.modulus_of(slot, len(vectors))
            columns = [(point, share[slot]) for point, share in zip(usual_points(m, 2), shares)]
            assert interpolate(m, columns, 0) == [s % m for s in vector], "payload"
        return shares

    def check_share_commitments(self, phase, messages, shares):
        """Checks both counts, the repeated commitments and their openings."""
        two_phases = self.phases == 2 and phase is not None
        assert len(messages.share_commitments) == (32 * self.responders(1) if two_phases else 0), "share commitments"
        assert len(messages.openings) == (len(messages.sent) if two_phases and phase else 0), "first commitments"
        if not messages.openings:
            return
        assert messages.share_commitments == self.first.share_commitments, "share commitments"
        for server, ((commitments, blinding), share) in enumerate(zip(messages.openings, shares), 1):
            assert commitments == self.first.commitments, "first commitments"
            opens(b"promise", self.first.header, server, self.committed(share), blinding, messages.share_commitments)
        if self.name == "two-phase-4":
            # Slot x is carried: server n has the same share in both phases.
            assert all(share[1] == before[1] for share, before in zip(shares, self.first_shares)), "carried slot"

    # -- servers
    def randomness(self, phase, keys):
        if self.p:
            rows = [lifted_numbers(keys, self.q, self.p, row) for row in range(self.M)]
            rho, z, sigma, pad = zip(*rows)
            return {"pads": [[[a], [b]] for a, b in zip(z, pad)], "rho": rho, "sigma": sigma}
        limits = {"rho": (self.q - 1, 1), "sigma": (self.q, 0), "mu": (self.params.get("d_min"), 0)}
        drawn = {name: [field_element(keys, name, *limits[name], i) for i in range(self.positions)] for name in self.uses(phase)}
        outputs, kappa = self.outputs_per_row()[1], self.kappa(phase)
        pad = lambda output, j, i: field_element(keys, f"pad {output} {j}", self.q, 0, i)
        pads = [[[pad(o, j, i) for j in range(1, kappa + 1)] for o in range(outputs)] for i in range(self.positions)]
        return {"pads": pads, **drawn}

    def answers(self, phase, payloads, shares, keys):
        """Returns the honest answers of a step as bytes."""
        if phase is None:
            records = [self.encoded[row] for row in self.order or range(self.M)]
            return [self.fetch.answer(n, payload, records, keys) for n, payload in enumerate(payloads, 1)]
        randomness = self.randomness(phase, keys)
        answers = [self.answer(phase, alpha, share, randomness) for alpha, share in zip(self.alphas, shares)]
        return [self.pack_answer(answer) for answer in answers]

    def pack_answer(self, elements):
        return pack_words(self.q, self.p, elements) if self.p else pack(self.q, elements)

    def unpack_answer(self, data):
        count = self.positions * self.outputs_per_row()[1]
        return unpack_words(self.q, self.p, data, count) if self.p else unpack(self.q, data, count)

    def response(self, phase, behaviour, lead, answer):
        """Returns what a server with this behaviour sends, without the checksum."""
        if behaviour in ("silent", "refuses"):
            return None
        if behaviour == "adds 1" and phase is None:
            answer = bytes(byte ^ 1 for byte in answer)
        elif behaviour == "adds 1":
            moduli = itertools.cycle([self.p, self.q] if self.p else [self.q])
            answer = self.pack_answer([(element + 1) % m for element, m in zip(self.unpack_answer(answer), moduli)])
        elif behaviour == "not reduced":
            answer = b"\xff" * len(answer)
        elif behaviour == "wrong key check":
            lead = xor(lead[:16], b"\xff" * 16) + lead[16:]
        elif behaviour == "wrong ticket":
            assert phase == 0, "behaviour"
            lead = lead[:16] + xor(lead[16:], b"\xff" * 16)
        else:
            assert behaviour == "honest", "behaviour"
        return lead + answer

    # -- the client
    def vote(self, leads):
        """Returns the lead of the largest group and the servers in other groups."""
        count = lambda lead: sum(other == lead for other in leads.values())
        winner = max(leads.values(), key=count, default=None)
        return winner, [n for n, lead in leads.items() if lead != winner], count(winner)

    def heard(self, responses, length):
        """Votes and returns the answers that count, by server."""
        leads = {n: response[:length] for n, response in responses.items()}
        winner, others, size = self.vote(leads)
        most = self.params["silent"] + self.params["lying"]
        demand(not others or len(others) <= most and len(others) < size, "vote failed")
        self.lying_servers.update(others)
        return {n: response[length:] for n, response in responses.items() if n not in others}

    def possible(self, phase, decoded, theta, vectors):
        """Returns, for every position, whether honest servers can send its values."""
        if self.name.startswith("gated"):
            return [gate or cost <= self.bound for gate, cost in zip(decoded[::2], decoded[1::2])]
        if self.name.startswith("two-phase"):
            known = self.known(phase, vectors) % self.q
            return [phase == 0 or (v <= self.bound if t else v == known) for v, t in zip(decoded, theta)]
        assert not self.diff, "no entry of this file has differences"
        return [value <= self.bound for value in decoded]

    def decode_phase(self, phase, responses, shares, r, theta):
        vectors, offset = self.secrets(phase, theta)
        answers = self.heard(responses, 32 if phase == 0 else 16)
        unpacked = {n: self.unpack_answer(answer) for n, answer in answers.items()}
        self.lying_servers.update(n for n, elements in unpacked.items() if elements is None)
        unpacked = {n: elements for n, elements in unpacked.items() if elements is not None}
        if self.p:
            demand(len(unpacked) == 2, "too few answers")
            decoded = self.lifted_values(unpacked[0], unpacked[1], offset)
            demand(self.possible(phase, decoded, theta, vectors), "impossible value")
            return self.ranks(phase, decoded, theta)
        columns = self.columns(phase, unpacked, shares)
        fits = lambda kept, others: all(interpolate(self.q, kept, point) == values for point, values in others)
        kept, wrong = agreed(columns, self.kappa(phase) + 1, self.params["lying"], fits)
        self.lying_servers.update(wrong)
        try:
            decoded = self.values(phase, kept, vectors, offset, r)
        except AssertionError as problem:
            raise Failed(str(problem)) from None
        possible = self.possible(phase, decoded, theta, vectors)
        self.doubtful |= not all(possible)
        return [rank if fine else None for rank, fine in zip(self.ranks(phase, decoded, theta), possible)]

    def plain_cost(self, row):
        """Returns the cost of a row from the definition, None if the row does not match."""
        levels = list(zip(row, self.x, self.weights, self.immutable))
        if any(fixed and y != x for y, x, _, fixed in levels):
            return None
        if self.gate_tables and any(table[y] for table, y in zip(self.gate_tables, row)):
            return None
        if self.cost_tables:
            return sum(table[y] for table, y in zip(self.cost_tables, row))
        return sum(w * (y - x) ** 2 for y, x, w, _ in levels)

    def decode_record(self, responses, wanted, cost):
        """Returns the row with its true cost; None if it is left out."""
        encoded, wrong = self.fetch.decode(self.heard(responses, 16))
        self.lying_servers.update(wrong)
        if wanted is None:
            self.doubtful |= any(encoded)
            return None
        try:
            shown = self.shown_record(open_record(encoded), wanted)
        except Failed:
            shown = None
        true = shown and shown["cost"] == cost
        self.doubtful |= not true
        return shown if true or self.signer else None

    def shown_record(self, record, wanted):
        if self.signer:
            text, mark = record[:-64], record[-64:]
            demand(verifies(bytes.fromhex(self.signer["public_key"]), self.signed(text), mark), "wrong signature")
            record = text
        row = self.order[wanted] if self.order else wanted
        levels = [int(text) for text in texts(record, self.d)[0]]
        assert levels == self.rows[row], "record"
        cost = self.plain_cost(levels)
        demand(cost is not None, "no match")
        return {"position": wanted, "row": row, "cost": cost, "record": record.hex()}

    # -- the whole
    def check_step(self, number, step, theta):
        """Checks messages and responses; returns phase, shares, r, the wanted row and responses."""
        assert set(step) == {"path", "messages", "tau", "behaviour", "responses"}, "steps"
        phase = number if number < self.phases else None
        servers = self.fetch.servers if phase is None else self.responders(phase)
        parent = bytes(48) if number == 0 else self.parent
        header = self.header(255 if phase is None else phase, servers, parent)
        messages = Messages(header, servers, step["messages"])
        shares = r = wanted = None
        if phase is None:
            wanted = self.fetch.wanted(messages.payloads)
        else:
            shares, r = self.check_payloads(phase, messages.payloads, self.secrets(phase, theta)[0])
        self.check_share_commitments(phase, messages, shares)
        assert step["path"] == ("/v1/record" if phase is None else "/v1/answer"), "path"
        tau = messages.tau()
        assert step["tau"] == tau.hex(), "tau"
        keys = derive(self.root, b"transcript", self.epoch, tau)
        lead = stream(keys, "key check").read(0, 16)
        if number == 0:
            self.first, self.first_shares, self.tau = messages, shares, tau
            self.valid = derive(self.root, b"ticket", self.epoch, self.name.encode(), tau)[:16]
            assert self.ticket == self.valid.hex(), "ticket"
            assert self.order == (order(keys, self.M) if self.params["shuffle"] else None), "order"
            lead += self.valid
        assert len(step["behaviour"]) == len(step["responses"]) == servers, "responses"
        answers, responses = self.answers(phase, messages.payloads, shares, keys), {}
        for n, (behaviour, text, answer) in enumerate(zip(step["behaviour"], step["responses"], answers)):
            refused = number > 0 and parent[32:] != self.valid
            assert (behaviour == "refuses") == refused, "behaviour"
            response = self.response(phase, behaviour, lead, answer)
            assert text == (None if response is None else (response + p.blake3(response)[:16]).hex()), "responses"
            if response is not None:
                responses[n] = response
        if number == 0:
            winner = self.vote({n: response[:32] for n, response in responses.items()})[0]
            self.parent = tau + (winner[16:] if winner else bytes(16))
        return phase, shares, r, wanted, responses

    def check(self):
        self.check_query("largest")
        self.check_records()
        assert self.k >= 1 and len(self.steps) == self.phases + self.k, "steps"
        theta, nearest, error, found = [False] * self.M, [], None, []
        for number, step in enumerate(self.steps):
            phase, shares, r, wanted, responses = self.check_step(number, step, theta)
            try:
                if phase is None:
                    place = number - self.phases
                    cost, position = nearest[place] if place < len(nearest) else (None, None)
                    assert wanted == position, "wanted position"
                    found += filter(None, [self.decode_record(responses, wanted, cost)])
                else:
                    ranks = self.decode_phase(phase, responses, shares, r, theta)
                    theta = [rank is not None for rank in ranks]
            except Failed as problem:
                error = error or str(problem)
                theta, ranks = ([False] * self.M, [None] * self.M) if phase is not None else (theta, ranks)
            if phase == self.phases - 1:
                nearest = sorted((rank, position) for position, rank in enumerate(ranks) if rank is not None)
        result = {"matching_rows": sum(theta), "nearest": found}
        result["lying_servers"] = sorted(n + 1 for n in self.lying_servers)
        result["doubtful"] = self.doubtful
        assert self.result == ({"error": error} if error else result), "result"


@functools.lru_cache(None)
def public_key(seed):
    return signature.keys(seed)[2]


@functools.lru_cache(None)
def sign(seed, message):
    return signature.sign(seed, message)


@functools.lru_cache(None)
def verifies(public, message, mark):
    return signature.verifies(public, message, mark)


def check(vectors):
    assert set(vectors) == {"searches"}, "fields"
    for number, entry in enumerate(vectors["searches"]):
        try:
            Search(entry).check()
        except AssertionError as problem:
            raise AssertionError(f"search {number}: {problem}") from None
