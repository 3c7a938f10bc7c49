"""Checks refusals.json: the checks of a server in their order (docs/protocol.md, section 7.2).

The checker builds every refused message from the accepted one by its faults, and determines the
problem of the result.
"""
import primitives as p
from schemes import Deployment, Query
from searches import Fetch, pack, unpack
from transcript import Messages, commitment, derive, opens

PATHS = {False: "/v1/answer", True: "/v1/record"}
COMMITMENT_FAULTS = {"commitment", "blinding", "blinding not canonical"}


class Refused(Exception):
    """The text is the name of the problem."""


def demand(condition, problem):
    if not condition:
        raise Refused(problem)


class Message:
    """A message in parts. Refuses bytes that do not have the structure of a message."""

    def __init__(self, data):
        self.rest = data
        demand(self.take(6) == b"ifonly", "malformed")
        demand(self.take(1) == b"\x03", "unsupported-version")
        fixed = self.take(85)
        self.phase, self.parent = fixed[0], fixed[37:85]
        self.epoch, self.digest = fixed[1:5], fixed[5:37]
        length = self.take(1)
        self.scheme = self.take(length[0])
        try:
            self.scheme.decode()
        except UnicodeDecodeError:
            raise Refused("malformed") from None
        count = self.take(1)
        self.responders = list(self.take(count[0]))
        increasing = all(a < b for a, b in zip([0] + self.responders, self.responders))
        demand(self.responders and increasing, "malformed")
        self.header = data[: len(data) - len(self.rest)]
        self.server = self.take(1)[0]
        self.commitments = self.several(len(self.responders))
        self.blinding = self.take(32)
        self.share_commitments = self.several(self.take(1)[0])
        self.first_commitments = self.several(self.take(1)[0])
        self.share_blinding = self.take(32) if self.first_commitments else b""
        self.payload = self.rest

    def take(self, count):
        part, self.rest = self.rest[:count], self.rest[count:]
        demand(len(part) == count, "malformed")
        return part

    def several(self, count):
        return [self.take(32) for _ in range(count)]

    def data(self):
        lists = [bytes([len(self.share_commitments)]), *self.share_commitments]
        lists += [bytes([len(self.first_commitments)]), *self.first_commitments, self.share_blinding]
        parts = [bytes(self.header), bytes([self.server]), *self.commitments, self.blinding, *lists, self.payload]
        return b"".join(parts)


def opened(kind, header, server, payload, blinding, commitments):
    try:
        opens(kind, header, server, payload, blinding, b"".join(commitments))
    except AssertionError:
        return False
    return True


class Server:
    """What all servers have."""

    def __init__(self, v):
        assert set(v) == {"manifest_digest", "record_length", "root_keys", "schemes", "accepted", "refusals"}, "fields"
        self.digest = bytes.fromhex(v["manifest_digest"])
        self.record_length, self.keys = v["record_length"], {}
        for one in v["root_keys"]:
            assert set(one) == {"key_epoch", "root_key"}, "root_keys"
            self.keys[one["key_epoch"].to_bytes(4, "little")] = bytes.fromhex(one["root_key"])
        self.schemes = {}
        for one in v["schemes"]:
            assert set(one) == {"scheme", "params", "bound", "q"}, "schemes"
            params = {"max_levels", "rows", "threshold", "silent", "lying"}
            assert set(one["params"]) == params and one["scheme"] in ("baseline", "two-phase"), "params"
            Deployment(one["scheme"], one["params"]).check_modulus(one["q"], one["bound"], "largest")
            self.schemes[one["scheme"].encode()] = Query(one["scheme"], one)
        self.longest = max(len(text) // 2 for step in v["accepted"] for text in step["messages"])

    def fetch(self, query):
        return Fetch(query, self.record_length)

    def ticket(self, epoch, scheme, tau):
        return derive(self.keys[epoch], b"ticket", epoch, scheme, tau)[:16]

    def check(self, server, path, data):
        """Returns the name of the problem, None if the server accepts the message."""
        try:
            self.check_message(server, path, data)
        except Refused as problem:
            return str(problem)
        return None

    def check_message(self, server, path, data):
        demand(path in PATHS.values(), "not-found")
        demand(len(data) <= self.longest, "too-large")
        m = Message(data)
        record = m.phase == 255
        demand(path == PATHS[record], "wrong-path")
        demand(m.digest == self.digest, "unknown-manifest")
        demand(m.scheme in self.schemes, "scheme-not-offered")
        query = self.schemes[m.scheme]
        demand(record or m.phase < query.phases, "malformed")
        servers = self.fetch(query).servers if record else query.responders(m.phase)
        demand(m.responders == list(range(1, servers + 1)), "malformed")
        demand(m.server == server and server in m.responders, "wrong-server")
        demand((m.parent == bytes(48)) == (m.phase == 0), "malformed")
        demand(m.epoch in self.keys, "unknown-key-epoch")
        demand(m.phase == 0 or m.parent[32:] == self.ticket(m.epoch, m.scheme, m.parent[:32]), "wrong-ticket")
        shares = self.check_payload(query, m)
        demand(opened(b"payload", m.header, server, m.payload, m.blinding, m.commitments), "malformed")
        demand(self.keeps_shares(query, m, shares), "malformed")

    def check_payload(self, query, m):
        """Returns the elements of a phase; refuses a payload of another length or packing."""
        if m.phase == 255:
            fetch = self.fetch(query)
            demand(len(m.payload) == fetch.query_length, "malformed")
            demand(not fetch.binary or int.from_bytes(m.payload, "little") >> query.M == 0, "malformed")
            return None
        vectors = query.secrets(m.phase, [False] * query.M)[0]
        elements = unpack(query.q, m.payload, sum(map(len, vectors)))
        demand(elements is not None, "malformed")
        return elements

    def keeps_shares(self, query, m, elements):
        if query.phases == 1 or m.phase == 255:
            return not m.share_commitments and not m.first_commitments
        if len(m.share_commitments) != query.responders(1):
            return False
        if m.phase == 0:
            return not m.first_commitments
        count = query.responders(0)
        first = b"ifonly\x03\0" + m.epoch + m.digest + bytes(48) + bytes([len(m.scheme)]) + m.scheme
        first += bytes([count]) + bytes(range(1, count + 1))
        tau = p.derive_key("ifonly transcript v1", first + b"".join(m.first_commitments + m.share_commitments))
        part = pack(query.q, elements[query.M :])
        return tau == m.parent[:32] and opened(b"promise", first, m.server, part, m.share_blinding, m.share_commitments)


# -- faults


def flip(data, place=0):
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def not_canonical(scalar):
    return (int.from_bytes(scalar, "little") + p.GROUP_ORDER).to_bytes(32, "little")


def apply(fault, m, server):
    """Applies a fault to message m."""
    header, count, own = m.header, 93 + len(m.scheme), m.server - 1
    bits, total = (server.schemes[m.scheme].q - 1).bit_length(), int.from_bytes(m.payload, "little")
    number = lambda value: value.to_bytes(len(m.payload), "little")
    places = {"magic": (0, b"h"), "version": (6, b"\2"), "phase 0": (7, b"\0"), "phase 2": (7, b"\2"), "phase 255": (7, b"\xff")}
    places |= {"unknown key epoch": (8, b"\x09"), "other key epoch": (8, b"\x06"), "no parent": (44, bytes(48))}
    places |= {"no ticket": (76, bytes(16)), "unknown scheme": (93, b"x"), "scheme not UTF-8": (93, b"\xff")}
    places |= {"responder 0": (count + 1, b"\0"), "responder twice": (count + 2, b"\1")}
    places |= {name: (place, flip(header[place : place + 1])) for name, place in (("manifest digest", 12), ("parent", 44), ("ticket", 76))}
    places["responder skipped"] = len(header) - 1, bytes([header[-1] + 1])
    tau, other = m.parent[:32], (6).to_bytes(4, "little")
    if fault in places:
        place, new = places[fault]
        m.header = header[:place] + new + header[place + len(new) :]
    elif fault == "ticket of two-phase":
        m.header = header[:76] + server.ticket(m.epoch, b"two-phase", tau) + header[92:]
    elif fault == "ticket of epoch 6":
        m.header = header[:76] + server.ticket(other, m.scheme, tau) + header[92:]
    elif fault == "one responder more":
        more = header[count] + 1
        m.header = header[:count] + bytes([more]) + header[count + 1 :] + bytes([more])
        m.commitments.append(bytes(32))
    elif fault == "one responder less":
        m.header = header[:count] + bytes([header[count] - 1]) + header[count + 1 : -1]
        m.commitments.pop()
    elif fault == "no responders":
        m.header, m.commitments = header[:count] + b"\0", []
    elif fault == "other server":
        m.server = m.server % header[count] + 1
    elif fault == "no responder":
        m.server = header[count] + 1
    elif fault == "commitment":
        m.commitments[own] = flip(m.commitments[own])
    elif fault == "blinding":
        m.blinding = flip(m.blinding)
    elif fault == "blinding not canonical":
        m.blinding = not_canonical(m.blinding)
    elif fault == "longer payload":
        m.payload += b"\0"
    elif fault == "shorter payload":
        m.payload = m.payload[:-1]
    elif fault == "element not reduced":
        m.payload = number(total | (1 << bits) - 1)
    elif fault == "unused bits":
        query = server.schemes[m.scheme]
        count = 0 if m.phase == 255 else sum(map(len, query.secrets(m.phase, [False] * query.M)[0]))
        m.payload = number(total | 1 << (bits * count or query.M))
    elif fault == "other x":
        # The last element is one of x; q is odd, so it stays reduced if its lowest bit changes.
        query = server.schemes[m.scheme]
        m.payload = number(total ^ 1 << bits * (query.M + query.d - 1))
    elif fault == "no share commitments":
        m.share_commitments = []
    elif fault == "one share commitment more":
        m.share_commitments.append(bytes(32))
    elif fault in ("own share commitment", "last share commitment"):
        place = own if fault.startswith("own") else -1
        m.share_commitments[place] = flip(m.share_commitments[place])
    elif fault == "first commitment":
        m.first_commitments[0] = flip(m.first_commitments[0])
    elif fault == "no first commitments":
        m.first_commitments, m.share_blinding = [], b""
    elif fault == "one first commitment":
        m.first_commitments, m.share_blinding = [bytes(32)], bytes(32)
    elif fault == "share blinding":
        m.share_blinding = flip(m.share_blinding)
    else:
        assert fault == "share blinding not canonical", "faults"
        m.share_blinding = not_canonical(m.share_blinding)


def faulty(server, step, index, faults):
    """Builds the message with these faults to server `index`."""
    messages = step["messages"]
    m = Message(bytes.fromhex(messages[min(index, len(messages)) - 1]))
    cuts = [fault for fault in faults if fault.startswith("first ") and fault.endswith(" bytes")]
    changes = [fault for fault in faults if fault not in cuts and fault != "path"]
    for fault in changes:
        apply(fault, m, server)
    if not COMMITMENT_FAULTS & set(changes) and m.server <= len(m.commitments):
        scalar = int.from_bytes(m.blinding, "little")
        m.commitments[m.server - 1] = commitment(b"payload", m.header, m.server, m.payload, scalar)
    data = m.data()
    for cut in cuts:
        data = data[: int(cut.split()[1])]
    return data


def check_accepted(server, steps):
    """Checks that servers accept the messages, and that each search is consistent."""
    shapes = [("baseline", 0, 5), ("baseline", 255, 5), ("two-phase", 0, 5), ("two-phase", 1, 5), ("two-phase", 255, 5), ("baseline", 255, 6)]
    assert [(step["scheme"], step["phase"], step["key_epoch"]) for step in steps] == shapes, "accepted"
    first = None
    for step in steps:
        assert set(step) == {"scheme", "phase", "key_epoch", "messages"}, "accepted"
        data = [bytes.fromhex(text) for text in step["messages"]]
        message = Message(data[0])
        assert (message.scheme.decode(), message.phase) == (step["scheme"], step["phase"]), "accepted"
        assert message.epoch == step["key_epoch"].to_bytes(4, "little"), "key_epoch"
        if step["key_epoch"] == 5:
            # All messages of a search name its first one.
            first = Messages(message.header, len(message.responders), step["messages"]) if step["phase"] == 0 else first
            assert step["phase"] == 0 or message.parent[:32] == first.tau(), "parent"
        Messages(message.header, len(message.responders), step["messages"])
        for index, one in enumerate(data, 1):
            assert server.check(index, PATHS[step["phase"] == 255], one) is None, "accepted"


def check(v):
    server = Server(v)
    check_accepted(server, v["accepted"])
    assert len(v["refusals"]) == len({str(one["step"]) + str(one["faults"]) for one in v["refusals"]}) == 85, "refusals"
    for number, one in enumerate(v["refusals"]):
        assert set(one) == {"step", "server", "faults", "path", "message", "problem"}, "refusals"
        step, faults, data = v["accepted"][one["step"]], one["faults"], bytes.fromhex(one["message"])
        assert one["path"] == PATHS[(step["phase"] == 255) != ("path" in faults)], f"refusal {number}: path"
        assert 1 <= one["server"] <= len(step["messages"]) + ("no responder" in faults), f"refusal {number}: server"
        assert data == faulty(server, step, one["server"], faults), f"refusal {number}: message"
        # Where a message is cut before its server, the lowest server counts.
        lower = [faulty(server, step, index, faults) for index in range(1, one["server"])]
        assert "no responder" in faults or data not in lower, f"refusal {number}: server"
        assert one["problem"] == server.check(one["server"], one["path"], data), f"refusal {number}: problem"
