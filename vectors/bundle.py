"""Checks bundle.json: what a build makes of a CSV file, from docs/protocol.md alone."""
import csv
import io
import json

import primitives
import signature
import values
from values import must


def check(v):
    fields = "accept csv digest manifest records rows signing_key target".split()
    must(set(v) == set(fields), "fields")
    text = v["manifest"]
    manifest = json.loads(text)
    must(json.dumps(manifest, separators=(",", ":"), ensure_ascii=False) == text, "the canonical form")
    must(primitives.derive_key("ifonly manifest v1", text.encode()).hex() == v["digest"], "the digest")
    values.check_manifest(manifest)
    seed = bytes.fromhex(v["signing_key"])
    must(manifest["signer"] == signature.keys(seed)[2].hex(), "the signer")
    subject = signature.subject(manifest["dataset"], manifest["bundle_id"], json.dumps(manifest["schema"], separators=(",", ":"), ensure_ascii=False))

    table = list(csv.DictReader(io.StringIO(v["csv"])))
    must(manifest["dataset"]["accepted"] == f"{v['target']} is {v['accept']}", "how rows were accepted")
    must(len(table) == 8, "rows of the table")
    columns = [values.column(feature) for feature in manifest["schema"]["features"]]
    must(columns == [name for name in table[0] if name != v["target"]], "columns")
    # The scales cover the whole table, rejected rows included.
    for row in table:
        for feature in manifest["schema"]["features"]:
            if feature["kind"]["type"] == "numeric":
                low, high = values.bounds(feature)
                must(low <= values.read(feature["kind"]["notation"], row[feature["name"]]) <= high, "bounds")
    accepted = [row for row in table if row[v["target"]] == v["accept"]]
    must(len(accepted) == manifest["rows"] == len(v["rows"]) == len(v["records"]), "number of rows")
    for row, levels, record in zip(accepted, v["rows"], v["records"]):
        must([level for level, _ in values.encode_all(manifest["schema"], row)] == levels, "levels")
        record = bytes.fromhex(record)
        must(len(record) == manifest["record_length"], "the record's length")
        body, signed = record[:-64], record[-64:]
        must(values.texts_of(body, len(columns)) == [row[name] for name in columns], "the record's texts")
        must(signature.sign(seed, b"ifonly record v1" + subject + body) == signed, "the signature")
