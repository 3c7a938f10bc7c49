"""Checks the scheme files: recomputes every number from the formulas alone.

Queries are shared as s + sum alpha^j Z_j. Answers follow the published row formulas, not the row
functions that servers evaluate. Decoding is Lagrange interpolation at 0. Lying servers are found by
trying all sets of them.

A lifted gate has its violations in a second field, F_p. Server 2 answers the negative of its share,
and the servers' randomness belongs to stored rows instead of positions.
"""
import itertools


def is_prime(n):
    """Tests primality by Miller-Rabin, which is exact for 64-bit numbers with these bases."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if n < 2 or any(n % p == 0 for p in bases):
        return n in bases
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(any(pow(b, odd << i, n) in ((1, n - 1) if i == 0 else (n - 1,)) for i in range(twos)) for b in bases)


def smallest_above(bound):
    return next(n for n in itertools.count(bound + 1) if is_prime(n))


def largest_above(bound):
    """Returns the largest prime below 2^b, with the smallest b for which it exceeds the bound."""
    below = lambda bits: next(n for n in range((1 << bits) - 1, 1, -1) if is_prime(n))
    return next(n for n in map(below, range(2, 63)) if n > bound)


def usual_points(q, count):
    return [(n // 2 + 1) * (-1) ** n % q for n in range(count)]


def used_fields(name):
    """Returns the fields of the user's secret and the parameters that scheme `name` uses."""
    weighted, table = name.endswith("+"), name in ("table", "gated-costs", "gated-tables")
    by_table = name in ("gated-ranges", "gated-ranges+", "gated-tables")
    gated = name.startswith(("two-phase", "gated")) or "single-phase" in name
    secret = {"x"} if not table or name == "gated-costs" else set()
    secret |= {"immutable"} if gated and not by_table else set()
    secret |= {"weights"} if weighted else set()
    secret |= {"cost_tables"} if table else set()
    secret |= {"gate_tables"} if by_table else set()
    params = {"max_levels", "rows", "threshold", "silent", "lying", "shuffle", "verified"}
    params |= {"weight_limit"} if weighted else set()
    params |= {"immutable_limit"} if "single-phase" in name else set()
    params |= {"d_min"} if "mask" in name else set()
    params |= {"exponent"} if "lp" in name else set()
    params |= {"cost_limit"} if table else set()
    return secret, params


class Deployment:
    """Scheme `name` with the parameters `params`: its bound, degrees and numbers of servers."""

    def __init__(self, name, params):
        self.name, self.params = name, params
        self.max_levels, self.M, self.exponent = params["max_levels"], params["rows"], params.get("exponent")
        self.d = len(self.max_levels)
        self.delta = sum(r * r for r in self.max_levels)
        self.most = self.delta * params.get("weight_limit", 1)
        self.diff = "diff" in name
        self.positions = self.M - self.diff
        self.phases = 2 if name.startswith("two-phase") else 1
        self.servers = max(self.responders(phase) for phase in range(self.phases))
        plain = params["threshold"] == 1 and params["silent"] == params["lying"] == 0 and not params.get("verified")
        self.may_lift = plain and name in ("gated-ranges", "gated-ranges+", "gated-tables")

    def bound_of_values(self):
        p, name = self.params, self.name
        if "single-phase" in name:
            squares = sorted(r * r for r in self.max_levels)
            limit = p.get("weight_limit", 1)
            counts = range(min(p["immutable_limit"], self.d) + 1)
            # Between the smallest and the largest sum of f squares, the sum nearest to half of all.
            sums = [min(max(self.delta // 2, sum(squares[:f])), sum(squares[self.d - f :])) for f in counts]
            return max((s + 1) * (limit * (self.delta - s) + 1) - 1 for s in sums)
        if name in ("lp", "linear-lp"):
            return sum(r**self.exponent for r in self.max_levels)
        if "cost_limit" in p:
            return max(self.d * p["cost_limit"], {"gated-costs": self.delta, "gated-tables": self.d}.get(name, 0))
        if name.startswith("gated-ranges"):
            return max(self.most, self.d)
        return self.most * (2 if self.diff else 1) + p.get("d_min", 1) - 1

    def degree(self, phase):
        if self.name == "two-phase-4":
            return (3, 2)[phase]
        if self.name == "two-phase+":
            return (2, 3)[phase]
        if self.name in ("two-phase", "baseline+", "diff+", "mask+", "single-phase", "single-phase+"):
            return 2
        return self.exponent - 1 if self.name == "lp" else 1

    def kappa(self, phase):
        return self.degree(phase) * self.params["threshold"]

    def responders(self, phase):
        return self.kappa(phase) + 1 + self.params["silent"] + 2 * self.params["lying"]

    def check_modulus(self, q, bound, field, p=None):
        assert bound == self.bound_of_values(), "bound"
        above = max(bound, self.servers)
        if field == "given":
            assert is_prime(q) and q > above and p is None, "q"
            return
        rule = {"smallest": smallest_above, "largest": largest_above}[field]
        if self.may_lift:
            gate = rule(max(self.d, 2 if field == "smallest" else 8))
            cost = rule(max(above, gate))
            if gate <= 251 and cost.bit_length() + gate.bit_length() <= 32:
                assert (q, p) == (cost, gate), "q and p"
                return
        assert (q, p) == (rule(above), None), "q"


class Query(Deployment):
    """A database and a user's secret, with the formulas of the scheme.

    `fields` has q, alphas, params, rows, order and the secret's fields that the scheme uses.
    """

    def __init__(self, name, fields):
        super().__init__(name, fields["params"])
        self.immutable = self.weights = self.cost_tables = self.gate_tables = self.p = None
        self.__dict__.update(fields)
        self.weights = self.weights or [1] * self.d
        self.immutable = self.immutable or [False] * self.d
        self.x = fields.get("x", [0] * self.d)

    def largest(self):
        """Returns the largest cost of the mutable features; the factor L is one more."""
        return self.params.get("weight_limit", 1) * sum(r * r for r, i in zip(self.max_levels, self.immutable) if not i)

    def check_query(self, field):
        p, q, alphas = self.params, self.q, self.alphas
        self.check_modulus(q, self.bound, field, self.p)
        assert len(alphas) == self.servers and len(set(alphas)) == self.servers, "alphas"
        assert all(0 < alpha < q for alpha in alphas), "alphas"
        assert field == "given" or alphas == usual_points(q, self.servers), "alphas"
        assert len(self.rows) == self.M and all(len(row) == self.d for row in self.rows + [self.x]), "rows"
        assert all(0 <= v <= r for row in self.rows + [self.x] for v, r in zip(row, self.max_levels)), "rows"
        assert len(self.immutable) == self.d and all(type(i) is bool for i in self.immutable), "immutable"
        assert sum(self.immutable) <= p.get("immutable_limit", self.d) <= self.d, "immutable"
        assert len(self.weights) == self.d, "weights"
        assert all(1 <= w <= p.get("weight_limit", 1) for w in self.weights), "weights"
        # Values without effect are fixed: weights of immutable features, x if a cost table counts.
        if self.name != "gated+":
            assert all(w == 1 for w, i in zip(self.weights, self.immutable) if i), "weights"
        if self.name == "gated-costs":
            assert all(v == 0 for v, i in zip(self.x, self.immutable) if not i), "x"
        for tables, most in ((self.cost_tables, p.get("cost_limit")), (self.gate_tables, 1)):
            assert tables is None or [len(table) - 1 for table in tables] == self.max_levels, "tables"
            assert all(0 <= entry <= most for table in tables or [] for entry in table), "tables"
        assert (self.order is not None) == p["shuffle"], "order"
        assert self.order is None or sorted(self.order) == list(range(self.M)), "order"

    def row_at(self, position):
        return self.rows[self.order[position] if self.order else position]

    # -- the vectors that the client shares in a phase, and the constant that it keeps
    def secrets(self, phase, theta):
        x, w = self.x, self.weights
        h = [int(i) for i in self.immutable]
        name = self.name
        flat = lambda tables: [entry for table in tables for entry in table]
        if name in ("baseline", "diff", "mask", "dot", "lp"):
            return [x], 0
        if name in ("baseline+", "diff+", "mask+"):
            return [x, w], 0
        if name.startswith("two-phase"):
            if phase == 0:
                return ([h, x], 0) if name == "two-phase-4" else ([h, [a * b for a, b in zip(h, x)]], 0)
            h2 = [int(t) for t in theta]
            if name == "two-phase+":
                return [h2, x, [1 if i else a for i, a in zip(self.immutable, w)]], 0
            return [h2, x], 0
        if name in ("single-phase", "single-phase+"):
            return [x, [self.largest() + 1 if i else a for i, a in zip(self.immutable, w)]], 0
        if name == "linear-lp":
            return [[a**e for e in range(1, self.exponent) for a in x]], sum(a**self.exponent for a in x)
        if name.startswith("linear-"):
            if "single" in name:
                w = [self.largest() + 1 if i else a for i, a in zip(self.immutable, w)]
            offset = 0 if "diff" in name else sum(b * a * a for a, b in zip(x, w))
            return [w, [a * b for a, b in zip(w, x)]], offset
        if name == "table":
            return [flat(self.cost_tables)], 0
        cost, offset = {
            "gated": ([x], sum(a * a for a in x)),
            "gated-ranges": ([x], sum(a * a for a in x)),
            "gated+": ([w, [a * b for a, b in zip(w, x)]], sum(b * a * a for a, b in zip(x, w))),
            "gated-ranges+": ([w, [a * b for a, b in zip(w, x)]], sum(b * a * a for a, b in zip(x, w))),
            "gated-costs": ([flat(self.cost_tables or [])], 0),
            "gated-tables": ([flat(self.cost_tables or [])], 0),
        }[name]
        if self.gate_tables:
            return cost + [flat(self.gate_tables)], offset
        hx = [a * b for a, b in zip(h, x)]
        return cost + [h, hx, [sum(a * b for a, b in zip(hx, x))]], offset

    # -- a row's value from one server's shares without randomness; `one` is 1 or a share of r
    def look_up(self, tables, y):
        total = place = 0
        for level, r in zip(y, self.max_levels):
            total += tables[place + level]
            place += r + 1
        return total

    def rows_value(self, phase, y, shares, one, position):
        """Returns the raw value of a row: one number, or (cost, gate) for gated schemes."""
        name, s = self.name, shares
        quad = lambda w, wx: sum(a * v * v - 2 * b * v for a, b, v in zip(w, wx, y))
        if name in ("baseline", "diff", "mask"):
            return one * sum(v * v for v in y) - 2 * sum(a * v for a, v in zip(s[0], y)) + sum(a * a for a in s[0])
        if name == "dot":
            return sum(a * v for a, v in zip(s[0], y))
        if name == "lp":
            return sum((v - a) ** self.exponent for a, v in zip(s[0], y)) + (one - 1) * sum(v**self.exponent for v in y)
        if name in ("baseline+", "diff+", "mask+", "single-phase", "single-phase+"):
            return sum(b * (v - a) ** 2 for a, b, v in zip(s[0], s[1], y))
        if name.startswith("two-phase"):
            if phase == 0 and name == "two-phase-4":
                return sum(a * (v - b) ** 2 for a, b, v in zip(s[0], s[1], y))
            if phase == 0:
                return sum((a * v - b) ** 2 for a, b, v in zip(s[0], s[1], y))
            weights = s[2] if name == "two-phase+" else [1] * len(y)
            return sum(c * (s[0][position] * v - b) ** 2 for b, c, v in zip(s[1], weights, y))
        if name == "linear-lp":
            d, total = len(y), one * sum(v**self.exponent for v in y)
            for j in range(1, self.exponent):
                binomial = 1
                for i in range(j):
                    binomial = binomial * (self.exponent - i) // (i + 1)
                e = self.exponent - j
                total += (-1) ** e * binomial * sum(s[0][(e - 1) * d + k] * y[k] ** j for k in range(d))
            return total
        if name.startswith("linear-"):
            return quad(s[0], s[1])
        if name == "table":
            return self.look_up(s[0], y)
        if name in ("gated", "gated-ranges"):
            cost, gate = one * sum(v * v for v in y) - 2 * sum(a * v for a, v in zip(s[0], y)), s[1:]
        elif name in ("gated+", "gated-ranges+"):
            cost, gate = quad(s[0], s[1]), s[2:]
        else:
            cost, gate = self.look_up(s[0], y), s[1:]
        return cost, self.look_up(gate[0], y) if self.gate_tables else quad(gate[0], gate[1]) + gate[2][0]

    def known(self, phase, shares):
        """Returns the known part, which the client computes from the shares and subtracts."""
        name, s = self.name, shares
        if name in ("baseline", "mask"):
            return sum(a * a for a in s[0])
        if name == "lp":
            return sum(a**self.exponent for a in s[0])
        if name in ("baseline+", "mask+", "single-phase", "single-phase+"):
            return sum(b * a * a for a, b in zip(s[0], s[1]))
        if name.startswith("two-phase") and phase == 1:
            weights = s[2] if name == "two-phase+" else [1] * len(s[1])
            return sum(c * b * b for b, c in zip(s[1], weights))
        return 0

    def uses(self, phase):
        """Returns the kinds of server randomness besides pads."""
        if self.name.startswith("gated"):
            return {"rho", "sigma"}
        if "mask" in self.name:
            return {"mu"}
        return {"rho"} if self.name.startswith("two-phase") and phase == 0 else set()

    def outputs(self, phase, shares, one, randomness, position):
        value = lambda at: self.rows_value(phase, self.row_at(at), shares, one, at)
        drawn = {name: randomness[name][position] for name in self.uses(phase)}
        if self.name.startswith("gated"):
            cost, gate = value(position)
            return [drawn["rho"] * gate, cost + drawn["sigma"] * gate]
        if self.diff:
            return [value(position) - value(position + 1)]
        return [value(position) * drawn.get("rho", 1) + drawn.get("mu", 0) * one]

    def modulus_of(self, slot, slots):
        """Returns the modulus of a shared vector: the gate is the last one."""
        return self.p if self.p and slot == slots - 1 else self.q

    def lifted_answer(self, alpha, shares, randomness):
        """Returns gate and cost of every position."""
        sign, elements = (1 if alpha == 1 else -1), []
        for position in range(self.M):
            row = self.order[position] if self.order else position
            cost, gate = self.rows_value(0, self.rows[row], shares, 1, position)
            gate, ((z,), (pad,)) = sign * gate % self.p, randomness["pads"][row]
            elements.append((randomness["rho"][row] * gate + z) % self.p)
            elements.append((sign * cost + randomness["sigma"][row] * gate + pad) % self.q)
        return elements

    def lifted_values(self, first, second, offset):
        """Decodes the answers of both servers."""
        half = pow(2, -1, self.q)
        decoded = []
        for i in range(0, len(first), 2):
            decoded.append((first[i] - second[i]) % self.p)
            decoded.append(((first[i + 1] - second[i + 1]) * half + offset) % self.q)
        return decoded

    def answer(self, phase, alpha, shares, randomness):
        """Returns the field elements that the server at point alpha answers to these shares."""
        if self.p:
            return self.lifted_answer(alpha, shares, randomness)
        half = len(shares) // 2
        parts = [(shares, 1)]
        if self.params["verified"]:
            parts = [(shares[:half], 1), (shares[half : 2 * half], shares[-1][0])]
        elements = []
        for position, pads in enumerate(randomness["pads"]):
            row = [o for s, one in parts for o in self.outputs(phase, s, one, randomness, position)]
            elements += [(o + sum(alpha ** (j + 1) * z for j, z in enumerate(pad))) % self.q for o, pad in zip(row, pads)]
        return elements

    def outputs_per_row(self):
        """Returns the number of outputs of a row, without and with those that verify."""
        plain = 2 if self.name.startswith("gated") else 1
        return plain, plain * (2 if self.params["verified"] else 1)

    def columns(self, phase, answers, queries):
        """Returns the point and the answer of each server, without its known part.

        `answers` maps servers to their field elements.
        """
        verified, (plain, per_row) = self.params["verified"], self.outputs_per_row()
        halves = lambda shares: [shares[: len(shares) // 2], shares[len(shares) // 2 : -1]] if verified else [shares]
        columns = {}
        for n, answer in answers.items():
            known = [part for half in halves(queries[n]) for part in [0] * (plain - 1) + [self.known(phase, half)]]
            columns[n] = self.alphas[n], [(a - known[i % per_row]) % self.q for i, a in enumerate(answer)]
        return columns

    def values(self, phase, kept, vectors, offset, r):
        """Decodes the columns `kept`."""
        plain, per_row = self.outputs_per_row()
        values = interpolate(self.q, kept, 0)
        rows = [values[i : i + per_row] for i in range(0, len(values), per_row)]
        if self.params["verified"]:
            assert all([r * v % self.q for v in row[:plain]] == row[plain:] for row in rows), "verification failed"
        constant = offset + self.known(phase, vectors)
        return [(v + (constant if i == plain - 1 else 0)) % self.q for row in rows for i, v in enumerate(row[:plain])]

    def ranks(self, phase, decoded, theta):
        """Returns a rank per row; smaller is nearer, None does not match."""
        if self.name.startswith("gated"):
            return [cost if gate == 0 else None for gate, cost in zip(decoded[::2], decoded[1::2])]
        if self.diff:
            signed = [value - self.q if value > self.q // 2 else value for value in decoded]
            return [0] + [-total for total in itertools.accumulate(signed)]
        if self.name == "dot":
            return [-value for value in decoded]
        if self.name.startswith("two-phase"):
            return [v if (v == 0 if phase == 0 else t) else None for v, t in zip(decoded, theta)]
        if "single-phase" in self.name:
            return [value if value <= self.largest() else None for value in decoded]
        return decoded


class Case(Query):
    """A case of scheme `name`. Fields that the scheme does not use must be absent."""

    def __init__(self, name, case):
        secret, params = used_fields(name)
        fields = {"bound", "field", "q", "alphas", "params", "rows", "order", "client_randomness", "server_randomness"}
        fields |= {"queries", "answers", "behaviour", "decoded", "lying_servers", "matching_rows", "nearest"}
        # check_modulus says whether p must be there.
        assert set(case) - {"p"} == fields | secret and set(case["params"]) == params, "fields"
        super().__init__(name, case)

    def check_inputs(self):
        self.check_query(self.field)
        p = self.params
        assert len(self.behaviour) == self.servers and set(self.behaviour) <= {"honest", "silent", "adds 1"}, "behaviour"
        assert self.behaviour.count("silent") == p["silent"], "behaviour"
        assert self.behaviour.count("adds 1") == p["lying"], "behaviour"
        for name in ("client_randomness", "server_randomness", "queries", "answers", "decoded"):
            assert len(getattr(self, name)) == self.phases, name

    def check_queries(self, phase, vectors):
        """Checks the shares against the client's draws.

        The shares of x and w of a second phase are drawn in the first.
        """
        q, queries, draws = self.q, self.queries[phase], iter(self.client_randomness[phase])
        points = self.alphas[: self.responders(phase)]

        def draw(limit):
            z = next(draws, -1)
            assert 0 <= z < limit, "client_randomness"
            return z

        r = 1 + draw(q - 1) if self.params["verified"] else None
        if r:
            vectors = vectors + [[r * s for s in v] for v in vectors] + [[r]]
        assert [len(query) for query in queries] == [len(vectors)] * len(points), "queries"
        def shared(vector, points, q=q):
            noise = [[draw(q) for _ in range(self.params["threshold"])] for _ in vector]
            share = lambda s, z, a: (s + sum(a ** (j + 1) * zj for j, zj in enumerate(z))) % q
            return [[share(s, z, a) for s, z in zip(vector, noise)] for a in points]

        for slot, vector in enumerate(vectors):
            modulus = self.modulus_of(slot, len(vectors))
            here = points if modulus == q else usual_points(modulus, 2)
            shares = self.committed_shares[slot - 1] if phase == 1 and slot else shared(vector, here, modulus)
            assert [query[slot] for query in queries] == shares, "queries"
        if phase == 0 and self.phases == 2:
            later = self.alphas[: self.responders(1)]
            if self.name == "two-phase-4":
                self.committed_shares = [[query[1] for query in queries[: len(later)]]]
            else:
                self.committed_shares = [shared(vector, later) for vector in self.secrets(1, [])[0][1:]]
        assert next(draws, None) is None, "client_randomness"
        return r

    def check_answers(self, phase):
        """Checks each server's answers against its shares and the server randomness."""
        q, randomness = self.q, self.server_randomness[phase]
        assert set(randomness) == {"pads"} | self.uses(phase), "server_randomness"
        least, limit = {"rho": 1}, {"mu": self.params.get("d_min")}
        if self.p:
            limit["rho"] = self.p
        for name in self.uses(phase):
            assert len(randomness[name]) == self.positions, name
            assert all(least.get(name, 0) <= z < limit.get(name, q) for z in randomness[name]), name
        shape = [[self.kappa(phase)] * self.outputs_per_row()[1]] * self.positions
        assert [[len(pads) for pads in row] for row in randomness["pads"]] == shape, "pads"
        limits = [self.p or q, q] * 2
        assert all(0 <= z < m for row in randomness["pads"] for pads, m in zip(row, limits) for z in pads), "pads"
        assert len(self.answers[phase]) == len(self.queries[phase]), "answers"
        for alpha, shares, answer in zip(self.alphas, self.queries[phase], self.answers[phase]):
            assert answer == self.answer(phase, alpha, shares, randomness), "answers"

    def decode(self, phase, vectors, offset, r):
        """Returns the decoded values and the lying servers."""
        if self.p:
            decoded = self.lifted_values(*self.answers[phase], offset)
            assert decoded == self.decoded[phase], "decoded"
            return decoded, []
        said = {n: answer for n, answer in enumerate(self.answers[phase]) if self.behaviour[n] != "silent"}
        said = {n: [a + (self.behaviour[n] == "adds 1") for a in answer] for n, answer in said.items()}
        columns = self.columns(phase, said, self.queries[phase])
        kept, lying_servers = honest(self.q, columns, self.kappa(phase) + 1, self.params["lying"])
        decoded = self.values(phase, kept, vectors, offset, r)
        assert decoded == self.decoded[phase], "decoded"
        return decoded, lying_servers

    def check(self):
        self.check_inputs()
        theta = [False] * self.M
        for phase in range(self.phases):
            vectors, offset = self.secrets(phase, theta)
            r = self.check_queries(phase, vectors)
            self.check_answers(phase)
            decoded, lying_servers = self.decode(phase, vectors, offset, r)
            ranks = self.ranks(phase, decoded, theta)
            theta = [rank is not None for rank in ranks]
        assert self.lying_servers == lying_servers == [n for n, how in enumerate(self.behaviour) if how == "adds 1"], "lying_servers"
        assert self.matching_rows == sum(theta), "matching_rows"
        order = sorted((rank, position) for position, rank in enumerate(ranks) if rank is not None)
        cost = lambda rank: {} if self.diff else {"cost": abs(rank)}
        nearest = [{"position": position, **cost(rank)} for rank, position in order]
        # The number of requested rows: 3 in the case with silent and lying servers, else T.
        wanted = 3 if self.params["silent"] else self.params["threshold"]
        assert self.nearest == (nearest + [None] * wanted)[:wanted], "nearest"


def interpolate(q, columns, at):
    """Evaluates the polynomials through the columns (point, values) at a point."""
    total = [0] * len(columns[0][1])
    for n, (a, values) in enumerate(columns):
        weight = 1
        for m, (b, _) in enumerate(columns):
            if m != n:
                weight = weight * (at - b) * pow(a - b, -1, q) % q
        total = [(t + weight * v) % q for t, v in zip(total, values)]
    return total


def honest(q, columns, need, most):
    """Returns `need` consistent columns and the fewest columns that contradict them.

    At most `most` columns may contradict.
    """
    for count in range(most + 1):
        for lying_servers in itertools.combinations(columns, count):
            kept = [column for n, column in columns.items() if n not in lying_servers]
            if all(interpolate(q, kept[:need], point) == values for point, values in kept[need:]):
                return kept[:need], list(lying_servers)
    raise AssertionError("answers that agree")


def check(vectors, name):
    assert set(vectors) == {"scheme", "cases"} and vectors["scheme"] == name, "scheme"
    for number, case in enumerate(vectors["cases"]):
        try:
            Case(name, case).check()
        except AssertionError as problem:
            raise AssertionError(f"case {number}: {problem}") from None
