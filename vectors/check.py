#!/usr/bin/env python3
"""Recomputes every number of the scheme vectors from their inputs and randomness, straight from the formulas.

Usage: python3 vectors/check.py            (Python 3.9 or newer, no packages)

Nothing here comes from the Rust code: queries are shared as s + sum alpha^j Z_j, answers are the published row
formulas (not the linear or polynomial forms that servers scan), decoding is Lagrange interpolation at 0.
"""
import json
import pathlib
import sys


class Case:
    def __init__(self, case):
        self.__dict__.update(case)
        self.ranges = self.params["ranges"]
        self.name = self.scheme
        self.delta = sum(r * r for r in self.ranges)
        weighted = self.name.endswith("+")
        self.most = self.delta * (self.params["weight_limit"] if weighted else 1)
        self.p = self.params["exponent"]

    # -- what the user shares, per phase: a list of vectors, and the constant that stays at home
    def secrets(self, phase, theta):
        q, x, w = self.q, self.x, self.weights
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
            return [x, [self.most + 1 if i else a for i, a in zip(self.immutable, w)]], 0
        if name == "linear-lp":
            return [[a**e for e in range(1, self.p) for a in x]], sum(a**self.p for a in x)
        if name.startswith("linear-"):
            if "single" in name:
                w = [self.most + 1 if i else a for i, a in zip(self.immutable, w)]
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

    # -- one row's value from one server's shares, before server randomness; `one` is 1 or a share of r
    def look_up(self, tables, y):
        total = place = 0
        for level, r in zip(y, self.ranges):
            total += tables[place + level]
            place += r + 1
        return total

    def rows_value(self, phase, y, shares, one, position):
        """The scheme's raw values of a row: one number, or (cost, gate) for gated schemes."""
        name, s = self.name, shares
        quad = lambda w, wx: sum(a * v * v - 2 * b * v for a, b, v in zip(w, wx, y))
        if name in ("baseline", "diff", "mask"):
            return one * sum(v * v for v in y) - 2 * sum(a * v for a, v in zip(s[0], y)) + sum(a * a for a in s[0])
        if name == "dot":
            return sum(a * v for a, v in zip(s[0], y))
        if name == "lp":
            return sum((v - a) ** self.p for a, v in zip(s[0], y)) + (one - 1) * sum(v**self.p for v in y)
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
            d, total = len(y), one * sum(v**self.p for v in y)
            for j in range(1, self.p):
                binomial = 1
                for i in range(j):
                    binomial = binomial * (self.p - i) // (i + 1)
                e = self.p - j
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
        """The part of a row's value that the user can compute from the shares; it is cancelled before decoding."""
        name, s = self.name, shares
        if name in ("baseline", "mask"):
            return sum(a * a for a in s[0])
        if name == "lp":
            return sum(a**self.p for a in s[0])
        if name in ("baseline+", "mask+", "single-phase", "single-phase+"):
            return sum(b * a * a for a, b in zip(s[0], s[1]))
        if name.startswith("two-phase") and phase == 1:
            weights = s[2] if name == "two-phase+" else [1] * len(s[1])
            return sum(c * b * b for b, c in zip(s[1], weights))
        return 0

    def outputs(self, phase, shares, one, randomness, position, row_at):
        value = lambda at: self.rows_value(phase, row_at(at), shares, one, at)
        rho, sigma, mu = (randomness[key][position] for key in ("rho", "sigma", "mu"))
        if self.name.startswith("gated"):
            cost, gate = value(position)
            return [rho * gate, cost + sigma * gate]
        if "diff" in self.name:
            return [value(position) - value(position + 1)]
        if "mask" in self.name:
            return [value(position) + mu * one]
        if self.name.startswith("two-phase") and phase == 0:
            return [rho * value(position)]
        return [value(position)]


def interpolate(q, points, values):
    total = 0
    for n, a in enumerate(points):
        weight = 1
        for m, b in enumerate(points):
            if m != n:
                weight = weight * b * pow(b - a, -1, q) % q
        total += weight * values[n]
    return total % q


def check(case):
    c = Case(case)
    q, threshold, verified = c.q, c.T, c.params["verified"]
    row_at = lambda position: c.rows[c.order[position] if c.order else position]
    theta, before = [False] * len(c.rows), None
    for phase, draws in enumerate(c.client_randomness):
        draws = iter(draws)
        r = 1 + next(draws) if verified else None
        vectors, offset = c.secrets(phase, theta)
        if verified:
            vectors = vectors + [[r * s for s in v] for v in vectors] + [[r]]
        servers = len(c.queries[phase])
        points = c.alphas[:servers]
        for slot, vector in enumerate(vectors):
            if c.name == "two-phase-4" and phase == 1 and slot == 1:
                shares = [before[n][1] for n in range(servers)]
            else:
                noise = [[next(draws) for _ in range(threshold)] for _ in vector]
                share = lambda s, z, a: (s + sum(a ** (j + 1) * zj for j, zj in enumerate(z))) % q
                shares = [[share(s, z, a) for s, z in zip(vector, noise)] for a in points]
            assert [query[slot] for query in c.queries[phase]] == shares, "queries"
        assert next(draws, None) is None, "unused randomness"
        before = c.queries[phase]
        randomness = c.server_randomness[phase]
        answered = len(c.rows) - ("diff" in c.name)
        for alpha, shares, answer in zip(points, c.queries[phase], c.answers[phase]):
            half = len(shares) // 2
            parts = [(shares[:half], 1), (shares[half : 2 * half], shares[-1][0])] if verified else [(shares, 1)]
            expected = []
            for position in range(answered):
                row = [o for s, one in parts for o in c.outputs(phase, s, one, randomness, position, row_at)]
                pads = randomness["pads"][position]
                expected += [
                    (o + sum(alpha ** (j + 1) * z for j, z in enumerate(pad))) % q for o, pad in zip(row, pads)
                ]
            assert answer == expected, "answers"
        per_row = len(c.answers[phase][0]) // max(answered, 1)
        plain = per_row // 2 if verified else per_row
        base = (lambda shares: shares[: len(shares) // 2]) if verified else (lambda shares: shares)
        decoded = []
        for place in range(answered * per_row):
            if place % per_row >= plain:
                continue
            last = place % per_row == plain - 1
            cancel = [c.known(phase, base(s)) if last else 0 for s in c.queries[phase]]
            values = [answer[place] - k for answer, k in zip(c.answers[phase], cancel)]
            constant = offset + c.known(phase, vectors) if last else 0
            decoded.append((interpolate(q, points, values) + constant) % q)
        assert decoded == c.decoded[phase], "decoded"
        if c.name.startswith("gated"):
            ranks = [cost if gate == 0 else None for gate, cost in zip(decoded[::2], decoded[1::2])]
        elif "diff" in c.name:
            ranks = [0]
            for value in decoded:
                ranks.append(ranks[-1] - (value - q if value > q // 2 else value))
        elif c.name == "dot":
            ranks = [-value for value in decoded]
        elif c.name.startswith("two-phase"):
            ranks = [v if (v == 0 if phase == 0 else t) else None for v, t in zip(decoded, theta)]
        elif "single-phase" in c.name:
            ranks = [value if value <= c.most else None for value in decoded]
        else:
            ranks = decoded
        theta = [rank is not None for rank in ranks]
    best = min(((rank, i) for i, rank in enumerate(ranks) if rank is not None), default=(None, None))
    assert c.index == best[1], "index"


def refused(failure):
    """Whether a failing case is one."""
    kind, q = failure["kind"], failure["q"]
    if kind == "composite q":
        return any(q % k == 0 for k in range(2, 1 << 20))
    if kind == "alpha zero":
        return any(alpha % q == 0 for alpha in failure["alphas"])
    bits, payload = (q - 1).bit_length(), bytes.fromhex(failure["payload"])
    if kind == "wrong length":
        return len(payload) != -(-failure["symbols"] * bits // 8)
    stream = int.from_bytes(payload, "little")
    return any((stream >> i * bits) % (1 << bits) >= q for i in range(failure["symbols"]))


def main():
    here = pathlib.Path(__file__).parent
    passed = failed = 0
    for path in sorted(here.glob("*.json")):
        vectors = json.loads(path.read_text())
        for failure in vectors.get("failures", []):
            if refused(failure):
                passed += 1
            else:
                failed += 1
                print(f"{path.name}: {failure['kind']} is not one")
        for number, case in enumerate(vectors.get("cases", [])):
            try:
                check(case)
                passed += 1
            except AssertionError as problem:
                failed += 1
                print(f"{path.name}, case {number}: {problem} differ")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
