#!/usr/bin/env python3
"""Measures how the time of one server's answer grows with M, d, R and N.

Runs `ifonly bench` and draws docs/figures/growth-*.svg.

    cargo build --release -p ifonly -p ifonly-bench
    python3 bench/growth.py [--quick] [--only M|d|R|N]

Each point is a separate run. The curves show ratios to the time of reading the same rows in the
same run. The script writes the numbers to docs/figures/growth.json and draws the figures from them
with the standard library only.
"""

import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "target" / "release" / "ifonly"
FIGURES = ROOT / "docs" / "figures"
PARTS = ["whole answer", "whole answer, shuffled", "decode and argmin"]
COLOURS = ["#1b6ca8", "#c0392b", "#2e8b57"]


def points(quick):
    rows = [10_000, 100_000, 1_000_000] if quick else [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000]
    yield "M", "rows M", [(m, ["--rows", str(m), "--rounds", str(max(5, min(100, 10_000_000 // m)))]) for m in rows]
    base = ["--rows", "1000000", "--rounds", "7"]
    yield "d", "features d", [(d, [*base, "--features", str(d)]) for d in (8, 12, 16, 20, 24, 32, 40, 48, 56, 64)]
    yield "R", "largest level R", [(r, [*base, "--max-level", str(r)]) for r in (3, 15, 63, 100, 255, 256, 1000, 2000, 4000)]
    yield "N", "servers N", [(n, [*base, "--servers", str(n)]) for n in (2, 3, 4, 5, 6)]


def measure(options):
    output = subprocess.run([str(BINARY), "bench", "--json", *options], capture_output=True, text=True, check=True).stdout
    report = json.loads(output)
    lines = {line["part"]: line for line in report["lines"]}
    return {
        "read_gigabytes_per_second": report["read_gigabytes_per_second"],
        "bits": report["bits"],
        **{part: {key: lines[part][key] for key in ("nanoseconds_per_row", "ratio_to_read")} for part in PARTS},
    }


def draw(name, label, curve):
    """Draws one figure: the ratio to `read` over the parameter, both axes logarithmic."""
    width, height, left, bottom, top, right = 640, 360, 60, 48, 24, 200
    xs = [point["at"] for point in curve]
    ys = [point[part]["ratio_to_read"] for point in curve for part in PARTS]
    x_low, x_high = math.log(min(xs)), math.log(max(xs))
    y_low, y_high = math.log(min(ys) * 0.8), math.log(max(ys) * 1.25)
    x = lambda value: left + (math.log(value) - x_low) / (x_high - x_low) * (width - left - right)
    y = lambda value: height - bottom - (math.log(value) - y_low) / (y_high - y_low) * (height - bottom - top)
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="15">time relative to reading the rows</text>',
        f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle">{label}</text>',
    ]
    for value in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50):
        if y_low <= math.log(value) <= y_high:
            svg.append(f'<line x1="{left}" x2="{width - right}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
            svg.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in xs:
        text = f"{value:g}" if value < 10_000 else f"{value:.0e}".replace("e+0", "e")
        svg.append(f'<text x="{x(value):.1f}" y="{height - bottom + 16}" text-anchor="middle" font-size="10">{text}</text>')
    for part, colour in zip(PARTS, COLOURS):
        path = " ".join(f"{x(p['at']):.1f},{y(p[part]['ratio_to_read']):.1f}" for p in curve)
        svg.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for point in curve:
            svg.append(f'<circle cx="{x(point["at"]):.1f}" cy="{y(point[part]["ratio_to_read"]):.1f}" r="3" fill="{colour}"/>')
        last = curve[-1]
        svg.append(f'<text x="{width - right + 8}" y="{y(last[part]["ratio_to_read"]) + 4:.1f}" fill="{colour}">{part}</text>')
    svg.append("</svg>")
    (FIGURES / f"growth-{name}.svg").write_text("\n".join(svg) + "\n")


def main():
    FIGURES.mkdir(parents=True, exist_ok=True)
    record = FIGURES / "growth.json"
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    curves = json.loads(record.read_text()) if only else {}
    for name, label, runs in points("--quick" in sys.argv):
        if only not in (None, name):
            continue
        curves[name] = []
        for at, options in runs:
            curves[name].append({"at": at, **measure(options)})
            print(name, at, {part: round(curves[name][-1][part]["ratio_to_read"], 2) for part in PARTS}, flush=True)
        draw(name, label, curves[name])
    record.write_text(json.dumps(curves, indent=1) + "\n")


if __name__ == "__main__":
    main()
