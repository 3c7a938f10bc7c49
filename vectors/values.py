"""Checks values.json: manifest, values, records and wishes, from docs/protocol.md alone."""
import datetime
import json
import math
import re
from decimal import Decimal

import primitives

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "<NA>", "?")
INFINITY = float("inf")


def must(holds, what):
    if not holds:
        raise AssertionError(what)


def number_of(text):
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# -- the manifest


def is_prime(n):
    """Tests primality by Miller-Rabin, which is exact below 2^64 with these bases."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if n < 2 or any(n % p == 0 for p in bases):
        return n in bases
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in bases:
        x = pow(base, odd, n)
        if x not in (1, n - 1) and not any((x := x * x % n) == n - 1 for _ in range(twos - 1)):
            return False
    return True


def largest_prime(bits):
    return next(q for q in range(2**bits - 1, 1, -1) if is_prime(q))


def check_manifest(manifest):
    features = manifest["schema"]["features"]
    ranges = [top(feature) for feature in features]
    must(1 <= manifest["threshold"] <= 16, "T")
    must(all(0 <= manifest[name] <= 16 for name in ("silent", "lying")), "S, B")
    must(1 <= len(ranges) <= 4096 and all(1 <= r <= 65535 for r in ranges), "ranges")
    must(sum(ranges) + len(ranges) <= 2**22, "levels")
    must(1 <= manifest["rows"] < 2**32 and 1 <= manifest["record_length"] <= 2**20, "sizes")
    must(manifest["default_scheme"] in [offer["name"] for offer in manifest["schemes"]], "default")
    must([operator["index"] for operator in manifest["operators"]] == list(range(1, len(manifest["operators"]) + 1)), "operators")
    labels = any(kind["type"] == "categorical" and len(kind["categories"]) > 2 for kind in (f["kind"] for f in features))
    for offer in manifest["schemes"]:
        if offer["name"] == "sealed":
            plain = (manifest["threshold"], manifest["silent"], manifest["lying"], manifest["verified"]) == (1, 0, 0, False)
            bits = (len(ranges) * manifest["cost_limit"]).bit_length() + len(ranges).bit_length()
            must(plain and offer["q"] == 2**bits and bits <= 63 and offer["alphas"] == [1, 2, 3], "sealed")
            must(len(manifest["operators"]) >= 3, "N")
            continue
        must(not labels or offer["name"] in ("table", "gated-costs", "gated-tables"), "labels need tables")
        delta, tables = sum(r * r for r in ranges), len(ranges) * manifest["cost_limit"]
        bound = {"table": tables, "gated-costs": max(tables, delta), "gated-tables": max(tables, len(ranges))}[offer["name"]]
        servers = manifest["threshold"] + 1 + manifest["silent"] + 2 * manifest["lying"]
        q, alphas = offer["q"], [alpha % offer["q"] for alpha in offer["alphas"]]
        above = lambda least: next(q for q in map(largest_prime, range(2, 63)) if q > least)
        lifted = None
        if offer["name"] == "gated-tables" and servers == 2 and manifest["threshold"] == 1 and not manifest["verified"]:
            gate = above(max(len(ranges), 8))
            cost = above(max(bound, servers, gate))
            if gate <= 251 and cost.bit_length() + gate.bit_length() <= 32:
                lifted = cost, gate
        must((q, offer.get("p")) == (lifted or (above(max(bound, servers)), None)), "q and p")
        must(len(alphas) == servers <= len(manifest["operators"]), "N")
        must(0 not in alphas and len(set(alphas)) == len(alphas), "alphas")


# -- features: R_k, the level of a value, the values of a level


def numbers(kind):
    """Returns the values of a grid or a list, or the edges."""
    layout = kind["scale"]["layout"]
    if layout["type"] == "grid":
        return [float(Decimal(layout["from"]) + k * Decimal(layout["step"])) for k in range(layout["levels"] + 1)]
    if layout["type"] == "listed":
        return [float(value) for value in layout["values"]]
    at = Decimal(layout["from"])
    edges = [float(at)]
    for run in layout["runs"]:
        for _ in range(run["count"]):
            at += Decimal(run["step"])
            edges.append(float(at))
    if 0.0 in edges[:-1]:
        edges.insert(edges.index(0.0) + 1, 5e-324)
    return edges


def words(feature):
    kind = feature["kind"]
    return kind.get("ranks") or kind.get("categories") or []


def top(feature):
    kind = feature["kind"]
    if kind["type"] == "numeric":
        layout = kind["scale"]["layout"]
        if layout["type"] in ("grid", "uniform"):
            return layout["levels"]
        return len(numbers(kind)) - (2 if layout["type"] == "edges" else 1)
    if kind["type"] == "categorical" and len(kind["categories"]) == 2:
        return kind["range"]
    return len(words(feature)) - 1


def is_space(character):
    """Tests the Unicode property White_Space, which excludes the separators U+001C to U+001F."""
    return character.isspace() and character not in "\x1c\x1d\x1e\x1f"


def trimmed(text):
    while text and is_space(text[0]):
        text = text[1:]
    while text and is_space(text[-1]):
        text = text[:-1]
    return text


PLAIN = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
TIMESTAMP = re.compile(r"(.{10})(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]*)?)?)?Z?")


def plain(text):
    return number_of(text) if PLAIN.fullmatch(text) else None


def formatted(notation, text):
    """Reads the rules `formatted`, `body` and `number` of the grammar."""
    prefix, suffix = notation["prefix"], notation["suffix"]
    must(notation["thousands"] is None or len(notation["thousands"]) == 1, "thousands")
    negative = 0
    if text.startswith("(") and text.endswith(")") and len(text) > 1:
        text, negative = text[1:-1], 1
    elif text.startswith("-"):
        text, negative = text[1:], 1
    if not (text.startswith(prefix) and text.endswith(suffix) and len(text) >= len(prefix) + len(suffix)):
        return None
    text = trimmed(text[len(prefix) : len(text) - len(suffix)])
    if text.startswith("-"):
        text, negative = text[1:], negative + 1
    point = re.escape(notation["decimal"])
    whole = "[0-9]+"
    if notation["thousands"]:
        whole += f"|[0-9]{{1,3}}(?:{re.escape(notation['thousands'])}[0-9]{{3}})+"
    match = re.fullmatch(f"({whole})(?:{point}([0-9]*))?|{point}([0-9]+)", text)
    if not match or negative > 1:
        return None
    digits = re.sub("[^0-9]", "", match[1] or "") or "0"
    number = float(digits + "." + (match[2] or match[3] or "0"))
    return -number if negative and number else number


def days(text):
    match = DATE.fullmatch(text)
    try:
        return float((datetime.date(*map(int, match.groups())) - datetime.date(1970, 1, 1)).days) if match else None
    except ValueError:
        return None


def seconds(text):
    match = TIMESTAMP.fullmatch(text)
    day = days(match[1]) if match else None
    if day is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.group(2, 3, 4))
    if hour > 23 or minute > 59 or second > 59:
        return None
    return (day * 86400 + hour * 3600 + minute * 60 + second) + float("0" + (match[5] or ".0") + "0")


def read(notation, text):
    """Returns the number that a text means, or None if the notation refuses the text."""
    text = trimmed(text)
    must(notation["type"] in ("plain", "formatted", "date", "timestamp"), "notation")
    if notation["type"] == "date":
        return days(text)
    if notation["type"] == "timestamp":
        return seconds(text)
    number = formatted(notation, text) if notation["type"] == "formatted" else None
    if number is None:
        number = plain(text)
        bare = formatted({**notation, "prefix": "", "suffix": ""}, text) if notation["type"] == "formatted" else None
        # A plain number that has another value with the separators of the column is refused.
        number = number if bare in (None, number) else None
    return number + 0.0 if number is not None and math.isfinite(number) else None


def place(choices, text):
    """Returns the position of the same text, or else of the same number."""
    if text.strip() in choices:
        return choices.index(text.strip())
    number = number_of(text)
    same = [k for k, word in enumerate(choices) if number is not None and number_of(word) == number]
    must(same, f"{text} is not one of {choices}")
    return same[0]


def filled(feature, text):
    missing = text.strip() in MISSING and text.strip() not in words(feature)
    must(not missing or feature["default"] is not None, "a value is missing")
    return feature["default"] if missing else text


def encode(feature, text):
    """Returns level and number of a text."""
    text, kind = filled(feature, text), feature["kind"]
    if kind["type"] != "numeric":
        at = place(words(feature), text)
        return (at * kind["range"] if kind["type"] == "categorical" and len(words(feature)) == 2 else at), None
    number, layout, highest = read(kind["notation"], text), kind["scale"]["layout"], top(feature)
    must(number is not None, f"{text} is not a number")
    if layout["type"] == "uniform":
        exact = (number - layout["min"]) / (layout["max"] - layout["min"]) * layout["levels"]
        level = math.floor(exact) if layout["quantiser"] == "floor" else rounded(exact)
    elif layout["type"] == "edges":
        level = sum(edge <= number for edge in numbers(kind)) - 1
    else:
        values = numbers(kind)
        above = min(sum(value < number for value in values), highest)
        below = max(above - 1, 0)
        level = below if number - values[below] < values[above] - number else above
    return min(max(level, 0), highest), number


def rounded(x):
    """Rounds half away from zero."""
    low = math.floor(abs(x))
    return int(math.copysign(low + (abs(x) - low >= 0.5), x))


def encode_all(schema, values):
    encoded, at = [], 0
    features = schema["features"]
    while at < len(features):
        hot = features[at]["one_hot"]
        if not hot:
            encoded.append(encode(features[at], values[features[at]["name"]]))
            at += 1
            continue
        group = [f for f in features[at:] if f["one_hot"] and f["one_hot"]["column"] == hot["column"]]
        hit = place([f["one_hot"]["category"] for f in group], filled(group[0], values[hot["column"]]))
        encoded += [(top(f) if k == hit else 0, None) for k, f in enumerate(group)]
        at += len(group)
    return encoded


def bounds(feature):
    layout = feature["kind"]["scale"]["layout"]
    return (layout["min"], layout["max"]) if layout["type"] == "uniform" else (numbers(feature["kind"])[0], numbers(feature["kind"])[-1])


def interval(feature, level):
    if feature["kind"]["type"] != "numeric":
        return float(level), float(level)
    scale, highest = feature["kind"]["scale"], top(feature)
    layout = scale["layout"]
    if layout["type"] == "uniform":
        low, high = layout["min"], layout["max"]
        down, up = (0.0, 1.0) if layout["quantiser"] == "floor" else (0.5, 0.5)
        at, slack = (lambda steps: low + steps / layout["levels"] * (high - low)), 1e-13 * (high - low)
        ends = max(at(level - down) - slack, low), min(at(level + up) + slack, high)
    elif layout["type"] == "edges":
        edges = numbers(feature["kind"])
        ends = (0.0, 0.0) if edges[level + 1] == 5e-324 else (edges[level], edges[level + 1])
    else:
        ends = (numbers(feature["kind"])[level],) * 2
    if scale["open_ended"]:
        ends = (-INFINITY if level == 0 else ends[0], INFINITY if level == highest else ends[1])
    return ends


def middle(feature, level):
    if feature["kind"]["type"] != "numeric":
        return float(level)
    layout = feature["kind"]["scale"]["layout"]
    if layout["type"] == "uniform":
        return layout["min"] + level / layout["levels"] * (layout["max"] - layout["min"])
    values = numbers(feature["kind"])
    return values[level] / 2 + values[level + 1] / 2 if layout["type"] == "edges" else values[level]


# -- wishes


def column(feature):
    return feature["one_hot"]["column"] if feature["one_hot"] else feature["name"]


def permitted_levels(schema, k, values):
    feature = schema["features"][k]
    if feature["one_hot"]:
        group = [f for f in schema["features"] if f["one_hot"] and column(f) == column(feature)]
        hits = [place([f["one_hot"]["category"] for f in group], value) for value in values]
        return [top(feature) if group[hit] is feature else 0 for hit in hits]
    levels = []
    for value in values:
        level, number = encode(feature, value)
        alone = number is None or interval(feature, level) == (number, number)
        must(alone, f"{value} is not a level by itself")
        levels.append(level)
    return levels


def gate(schema, k, own, wishes):
    feature, (level, number) = schema["features"][k], own
    name, v = column(feature), level if number is None else number
    table = []
    for m in range(top(feature) + 1):
        low, high = interval(feature, m)
        fits = m == level or name not in wishes.get("immutable", [])
        fits &= low >= v or name not in wishes.get("only_up", [])
        fits &= high <= v or name not in wishes.get("only_down", [])
        if name in wishes.get("ranges", {}):
            a, b = (read(feature["kind"]["notation"], end) for end in wishes["ranges"][name])
            fits &= a <= low and high <= b
        if name in wishes.get("permits", {}):
            fits &= m in permitted_levels(schema, k, wishes["permits"][name])
        table.append(0 if fits else 1)
    must(0 in table, "no level is permitted")
    return table


def cost(feature, own, m, wishes):
    level, number = own
    if feature["one_hot"] and level == 0:
        return 0.0
    v, t = (float(level) if number is None else number), middle(feature, m)
    categories, differs, name = feature["kind"]["type"] == "categorical", float(m != level), column(feature)
    if feature["kind"]["type"] == "numeric":
        low, high = bounds(feature)
        v, t = min(max(v, low), high), min(max(t, low), high)
        spread = high - low
    else:
        spread = float(top(feature))
    up, down = wishes.get("weights", {}).get(name, (1.0, 1.0))
    weight = up if t >= v else down
    if name in wishes.get("costs", {}):
        points = sorted((encode(feature, value), cost) for value, cost in wishes["costs"][name])
        return weight * on_line([(float(e[0]) if e[1] is None else e[1], cost) for e, cost in points], t)
    metric = wishes["metric"]
    must(metric in ("l1", "l2", "mad", "count"), "metric")
    if categories or metric == "count":
        return weight * differs
    if metric == "mad":
        return weight * (abs(t - v) / feature["deviation"]["value"])
    share = abs(t - v) / spread
    return weight * (share * share if metric == "l2" else share)


def on_line(points, at):
    below = [point for point in points if point[0] < at]
    above = points[len(below) :]
    if below and above:
        (low, start), (high, end) = below[-1], above[0]
        return start + (end - start) * (at - low) / (high - low)
    return (above or below[-1:])[0][1]


def tables(manifest, values, wishes):
    schema, limit = manifest["schema"], manifest["cost_limit"]
    features, own = schema["features"], encode_all(schema, values)
    gates = [gate(schema, k, own[k], wishes) for k in range(len(features))]
    costs = [
        [0.0 if gates[k][m] else cost(feature, own[k], m, wishes) for m in range(top(feature) + 1)]
        for k, feature in enumerate(features)
    ]
    largest, every = max(map(max, costs)), 0.0
    for table in costs:
        every += max(table)
    few = wishes.get("max_changes", False)
    need, room = (largest + every, limit - len(features) - 2) if few else (largest, limit)
    factor = float(room) * (1 - 2.0**-52) / need if need > 0 else 1.0
    whole = [[min(limit, rounded(entry * factor)) for entry in table] for table in costs]
    if few:
        raised = 1 + sum(map(max, whole))
        for table, (level, _), feature in zip(whole, own, features):
            if not (feature["one_hot"] and level == 0):
                table[:] = [entry + raised * (m != level) for m, entry in enumerate(table)]
    return whole, gates


# -- the whole file


def texts_of(record, columns):
    texts, at = [], 0
    for _ in range(columns):
        length = int.from_bytes(record[at : at + 2], "little")
        texts.append(record[at + 2 : at + 2 + length].decode())
        at += 2 + length
    must(not any(record[at:]), "zeros end a record")
    return texts


def check(vectors):
    fields = {"manifest", "digest", "profiles", "record", "questions", "refusals", "notations"}
    must(set(vectors) == fields, "fields")
    text = vectors["manifest"]
    manifest = json.loads(text)
    must(json.dumps(manifest, separators=(",", ":"), ensure_ascii=False) == text, "the canonical form")
    must(primitives.derive_key("ifonly manifest v1", text.encode()).hex() == vectors["digest"], "the digest")
    check_manifest(manifest)
    for person in vectors["profiles"]:
        levels = [level for level, _ in encode_all(manifest["schema"], person["values"])]
        must(levels == person["levels"], "levels")
        must(all(person["values"].values()), "a missing value is written as a word in this file")
        must(set(person["values"]) == {column(feature) for feature in manifest["schema"]["features"]}, "columns")
    counts = {"profiles": 3, "questions": 11, "refusals": 6, "notations": 6}
    must(all(len(vectors[name]) == count for name, count in counts.items()), "number of entries")
    record = bytes.fromhex(vectors["record"]["bytes"])
    must(len(record) == manifest["record_length"], "the record's length")
    must(texts_of(record, 11) == vectors["record"]["texts"], "the record's texts")
    for question in vectors["questions"]:
        must(question["values"] in [person["values"] for person in vectors["profiles"]], "unknown values")
        costs, gates = tables(manifest, question["values"], question["wishes"])
        must(costs == question["cost_tables"], "cost tables")
        must(gates == question["gate_tables"], "gate tables")
    for refusal in vectors["refusals"]:
        must(set(refusal) == {"values", "wishes"}, "fields of a refusal")
        must(refusal["values"] in [person["values"] for person in vectors["profiles"]], "unknown values")
        must(is_refused(manifest, refusal), "wishes that must be refused")
    must([len(entry["texts"]) for entry in vectors["notations"]] == [19, 17, 7, 5, 9, 9], "number of texts")
    for entry in vectors["notations"]:
        must(set(entry) == {"notation", "texts"}, "fields of a notation")
        for text in entry["texts"]:
            must(set(text) == {"text", "number"}, "fields of a text")
            number = read(entry["notation"], text["text"])
            must(number == text["number"], f"{text['text']!r} means {number}")


def is_refused(manifest, refusal):
    try:
        tables(manifest, refusal["values"], refusal["wishes"])
    except AssertionError:
        return True
    return False
