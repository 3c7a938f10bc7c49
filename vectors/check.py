#!/usr/bin/env python3
"""Recomputes every number of the vectors from their inputs and randomness, without the Rust code.

Usage: python3 vectors/check.py            checks all files (Python 3.9 or newer, no packages)
       python3 vectors/check.py --falsify  falsifies every field in turn; each must be detected
"""
import copy
import json
import pathlib
import sys

import bundle
import check_sealed
import refusals
import schemes
import searches
import signature
import transcript
import values


def check(name, vectors):
    """Raises an exception if a vector is wrong."""
    if name == "transcript":
        transcript.check(vectors)
    elif name == "signature":
        signature.check(vectors)
    elif name == "failures":
        transcript.check_failures(vectors)
    elif name == "sealed-machine":
        check_sealed.check(vectors)
    elif name == "sealed-search":
        check_sealed.check_search(vectors)
    elif name == "searches":
        searches.check(vectors)
    elif name == "refusals":
        refusals.check(vectors)
    elif name == "values":
        values.check(vectors)
    elif name == "bundle":
        bundle.check(vectors)
    else:
        schemes.check(vectors, name)


def complaint(name, vectors):
    # Falsified vectors may have any shape, so any exception counts as a complaint.
    try:
        check(name, vectors)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return None


def falsified(value):
    """Yields false values: another value for a leaf, one entry less for a list or an object."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield value + 1
    elif isinstance(value, str):
        hexadecimal = value and all(c in "0123456789abcdef" for c in value)
        yield (("1" if value[0] == "0" else "0") + value[1:] if hexadecimal else value + "x")
        yield value[:-2] if hexadecimal else ""
        if hexadecimal and len(value) > 64:
            middle = len(value) // 2
            yield value[:middle] + ("1" if value[middle] == "0" else "0") + value[middle + 1 :]
    elif value is None:
        yield 0
    elif isinstance(value, list):
        yield value[:-1] if value else [0]
    else:
        yield {key: value[key] for key in list(value)[:-1]}


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, path + (key,))


def is_refused_input(part, path):
    """Tests for an input that must be refused: another input may be refused as well."""
    if path[0] == "refusals":
        return len(path) > 1
    return path[0] == "notations" and path[-1] == "text" and part["notations"][path[1]]["texts"][path[3]]["number"] is None


def slips(name, vectors):
    """Returns the falsifications that were not detected, and the number of all."""
    parts = [vectors]
    for entries in ("cases", "searches"):
        if entries in vectors:
            # One entry at a time, so that the others are not checked again.
            parts = [{**vectors, entries: [entry]} for entry in vectors[entries]]
    tried, found = 0, []
    for number, part in enumerate(parts):
        for path in places(part):
            # The list of entries may have any length.
            if path in ((), ("cases",), ("searches",)) or name == "values" and is_refused_input(part, path):
                continue
            holder = copy.deepcopy(part)
            inner = holder
            for key in path[:-1]:
                inner = inner[key]
            honest = inner[path[-1]]
            for lie in falsified(honest):
                if lie == honest:
                    continue
                inner[path[-1]] = lie
                tried += 1
                if complaint(name, holder) is None:
                    found.append(f"{name}.json, part {number}: {'.'.join(map(str, path))} = {lie} instead of {honest}")
    return found, tried


def main(arguments):
    paths = sorted(pathlib.Path(__file__).parent.glob("*.json"))
    bad = tried = 0
    for path in paths:
        vectors = json.loads(path.read_text())
        problem = complaint(path.stem, vectors)
        if problem:
            bad += 1
            print(f"{path.name}: {problem}")
        elif arguments == ["--falsify"]:
            found, count = slips(path.stem, vectors)
            bad, tried = bad + len(found), tried + count
            print("\n".join(found + [f"{path.name}: {count} falsified, {len(found)} not detected"]))
    print(f"{len(paths)} files, {tried} falsified, {bad} failed")
    return 1 if bad or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
