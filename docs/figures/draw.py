#!/usr/bin/env python3
"""Draws the protocol figures as SVG: search.svg, sealed.svg and build.svg, beside this file.

    python3 docs/figures/draw.py            write the files
    python3 docs/figures/draw.py --check    exit with 1 if a file on disk differs

The same source always gives the same bytes. Texts are measured with the widths of a wide
sans-serif font. The script stops if a text does not fit into its box. The plots growth-*.svg in
this folder come from bench/growth.py.
"""

import argparse
import pathlib
import sys
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent

INK = "#1f2933"
SOFT = "#52606d"
PAPER = "#ffffff"
FRAME = "#d5dbe1"
# Fill, line and accent of each role.
CLIENT = ("#eaf1fd", "#9dbdf0", "#2459b8")
SERVER = ("#e7f5ef", "#93cdb7", "#14724f")
INSTITUTION = ("#fdf3e1", "#e6c27c", "#96590a")
NEUTRAL = ("#f4f6f8", "#cbd2d9", "#52606d")

# Widths of characters in ems, for DejaVu Sans, the widest of the common fonts.
NARROW = dict.fromkeys("iljI.,:;'|!", 0.33) | dict.fromkeys("ft()[]/-", 0.42)
NARROW |= {"r": 0.43, " ": 0.33}
WIDE = dict.fromkeys("mwMW", 0.98) | dict.fromkeys("OQGDHNU", 0.79)


def width(text, size, bold=False):
    """An upper estimate of the width of a text in user units."""
    ems = sum(NARROW.get(c) or WIDE.get(c) or (0.7 if c.isupper() else 0.63) for c in text)
    return ems * size * (1.1 if bold else 1.0)


def wrap(text, size, room):
    """The lines of a text, each of which fits into the room."""
    lines = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def on_paper(style):
    """The same role on a white ground, for boxes inside a box."""
    return (PAPER, *style[1:])


class Figure:
    """One picture. Elements are drawn in the order of the calls."""

    LINE = 17

    def __init__(self, name, wide, high, title, description):
        self.name = name
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}"'
            f' height="{high}" role="img" aria-labelledby="title description"'
            ' font-family="sans-serif">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
        ]
        self.box(0.5, 0.5, wide - 1, high - 1, (PAPER, FRAME, INK), radius=12)

    def add(self, element):
        self.parts.append(element)

    def box(self, x, y, w, h, style, radius=8, dashed=False):
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        self.add(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{radius}"'
            f' fill="{style[0]}" stroke="{style[1]}"{dash}/>'
        )

    def text(self, x, y, text, size=13, fill=INK, bold=False, anchor="start", room=None):
        need = width(text, size, bold)
        if room is not None and need > room:
            sys.exit(f"{self.name}: {text!r} is too wide: {need:.0f} > {room:.0f}")
        weight = ' font-weight="600"' if bold else ""
        self.add(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}"'
            f' text-anchor="{anchor}"{weight}>{escape(text)}</text>'
        )

    def lines(self, x, y, text, room, most):
        """Wraps a text into at most so many lines."""
        wrapped = wrap(text, 13, room)
        if len(wrapped) > most:
            sys.exit(f"{self.name}: {text!r} takes {len(wrapped)} lines; there is room for {most}")
        for number, line in enumerate(wrapped):
            self.text(x, y + number * self.LINE, line, 13, SOFT, room=room)

    def note(self, y, text):
        """A sentence across the figure."""
        self.text(400, y, text, 13, SOFT, anchor="middle", room=770)

    def actor(self, x, y, w, name, note, style):
        """The heading of a column."""
        self.add(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="46" rx="8" fill="{style[2]}"/>'
        )
        self.text(x + w / 2, y + 20, name, 15, PAPER, True, "middle", room=w - 16)
        self.text(x + w / 2, y + 37, note, 12, PAPER, anchor="middle", room=w - 16)

    def user(self, x, y):
        """A white figure of a person, 26 wide and 34 high, for a heading."""
        self.add(f'<circle cx="{x + 13:g}" cy="{y + 8:g}" r="7.5" fill="{PAPER}"/>')
        self.add(f'<path d="M{x:g} {y + 34:g} a13 15 0 0 1 26 0 Z" fill="{PAPER}"/>')

    def step(self, x, y, w, h, number, title, text, style):
        """A box with a number, a heading and a text."""
        accent = style[2]
        self.box(x, y, w, h, style)
        left = x + 14
        if number:
            self.add(f'<circle cx="{x + 23:g}" cy="{y + 22:g}" r="11" fill="{accent}"/>')
            self.text(x + 23, y + 26.5, str(number), 13, PAPER, True, "middle")
            left = x + 42
        self.text(left, y + 27, title, 14, accent, True, room=x + w - left - 8)
        self.lines(x + 14, y + 49, text, w - 26, most=int((h - 41) // self.LINE))

    def arrow(self, points, style, both=False):
        """A line through the points with a head at its end, or at both ends."""
        path = " ".join(f"{'L' if n else 'M'}{x:g} {y:g}" for n, (x, y) in enumerate(points))
        self.add(
            f'<path d="{path}" fill="none" stroke="{style[2]}" stroke-width="1.8"'
            ' stroke-linejoin="round"/>'
        )
        heads = [points[-2:], points[1::-1]] if both else [points[-2:]]
        for (x1, y1), (x2, y2) in heads:
            length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
            dx, dy = (x2 - x1) / length, (y2 - y1) / length
            corners = (
                (x2, y2),
                (x2 - 10 * dx - 5 * dy, y2 - 10 * dy + 5 * dx),
                (x2 - 10 * dx + 5 * dy, y2 - 10 * dy - 5 * dx),
            )
            text = " ".join(f"{round(x, 2):g},{round(y, 2):g}" for x, y in corners)
            self.add(f'<polygon points="{text}" fill="{style[2]}"/>')

    def caption(self, x, y, text):
        """A text on a line, which it interrupts."""
        half = width(text, 12) / 2 + 6
        self.add(
            f'<rect x="{x - half:g}" y="{y - 13:g}" width="{2 * half:g}" height="18"'
            f' fill="{PAPER}"/>'
        )
        self.text(x, y, text, 12, SOFT, anchor="middle")

    def svg(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def search():
    """The default search: two servers, one phase, then the record."""
    f = Figure(
        "search.svg", 800, 640, "A default search",
        "The client splits the user's values and wishes into two secret shares and sends one to"
        " each of two servers. Each server scans its copy of the rows and answers. The client"
        " decodes the costs, takes the nearest row and fetches its record by symmetric private"
        " information retrieval.",
    )  # fmt: skip
    left, middle, right = 20, 284, 588
    wide, client_wide = 192, 232
    f.actor(left, 20, wide, "Server 1", "operator A, all rows", SERVER)
    f.actor(middle, 20, client_wide, "Client", "on the user's machine", CLIENT)
    f.actor(right, 20, wide, "Server 2", "operator B, all rows", SERVER)
    f.user(middle + 16, 26)
    for x in (left + wide / 2, middle + client_wide / 2, right + wide / 2):
        f.add(f'<path d="M{x:g} 66 V500" stroke="{FRAME}" stroke-width="2"/>')
    for x in (left + wide / 2, right + wide / 2):
        f.caption(x, 176, "costs: one phase")
        f.caption(x, 388, "record: symmetric PIR")

    def messages(y, outward, first, second):
        """A message to each server, or from each, with a label of two lines."""
        style = CLIENT if outward else SERVER
        gaps = ((middle - 3, left + wide + 3), (middle + client_wide + 3, right - 3))
        for n, (near, far) in enumerate(gaps, 1):
            f.arrow([(near, y), (far, y)] if outward else [(far, y), (near, y)], style)
            for offset, line in ((-22, first), (-8, f"{second} {n}")):
                f.text((near + far) / 2, y + offset, line, 12, style[2], anchor="middle", room=66)

    def client(y, high, number, title, text):
        f.step(middle, y, client_wide, high, number, title, text, CLIENT)

    def servers(y, number, title, text):
        for x in (left, right):
            f.step(x, y, wide, 134, number, title, text, SERVER)

    client(80, 84, 1, "Encode", "Values and wishes become costs and gates.")
    client(178, 84, 2, "Share", "Split them into two secret shares.")
    messages(232, True, "secret", "share")
    servers(
        196, 3, "Scan",
        "Evaluate the share on every row. Shuffle the rows. Add pads to every output.",
    )  # fmt: skip
    messages(306, False, "packed", "answer")
    client(
        276, 100, 4, "Decode",
        "Combine both answers into the cost of each matching row. Take the nearest.",
    )  # fmt: skip
    client(390, 84, 5, "Query", "Hide its position in two PIR queries.")
    messages(444, True, "PIR", "query")
    servers(408, 6, "Sum", "Add up the records that the query selects. Add a pad.")
    messages(516, False, "padded", "sum")
    client(
        488, 100, 7, "Open",
        "Combine both sums into the record. Check signature and cost. Show the changes.",
    )  # fmt: skip
    f.note(
        618,
        "Each server sees only uniformly random numbers, and the same number of messages and bytes"
        " for every user.",
    )
    return f


def sealed():
    """A sealed search: three servers find the row jointly."""
    f = Figure(
        "sealed.svg", 800, 660, "A sealed search",
        "The client sends one secret share of its tables to each of three servers. The servers"
        " exchange frames and compute on shared bits: the value of each row, the smallest value,"
        " and its record. Each server returns one share of the result. The client combines the"
        " three shares.",
    )  # fmt: skip
    f.box(20, 20, 760, 134, CLIENT, radius=10)
    f.actor(20, 20, 760, "Client", "on the user's machine", CLIENT)
    f.user(300, 26)
    white = on_paper(CLIENT)
    f.step(32, 76, 362, 66, 1, "Share", "Split the table of costs into three shares.", white)
    f.step(406, 76, 362, 66, 6, "Combine", "XOR the answers. Check signature and cost.", white)

    f.box(20, 230, 760, 382, on_paper(SERVER), radius=10, dashed=True)
    columns, wide = (36, 304, 572), 192
    for n, x in enumerate(columns, 1):
        down, up = x + 34, x + wide - 34
        f.arrow([(down, 157), (down, 243)], CLIENT)
        f.text(down + 8, 208, f"share {n}", 12, CLIENT[2], room=60)
        f.arrow([(up, 243), (up, 157)], SERVER)
        f.text(up - 8, 186, f"answer {n}", 12, SERVER[2], anchor="end", room=70)
        f.actor(x, 246, wide, f"Server {n}", f"operator {'ABC'[n - 1]}, all rows", SERVER)
        f.step(
            x, 300, wide, 98, 2, "Look up",
            "Add up the shares that the levels of each row select.", SERVER,
        )  # fmt: skip
    for near, far in ((columns[0] + wide, columns[1]), (columns[1] + wide, columns[2])):
        f.arrow([(near + 3, 350), (far - 3, 350)], SERVER, both=True)
        f.text((near + far) / 2, 341, "frames", 12, SERVER[2], anchor="middle", room=70)
    first, last = columns[0] + wide / 2, columns[2] + wide / 2
    f.arrow([(first, 401), (first, 426), (last, 426), (last, 401)], SERVER, both=True)
    f.caption(400, 430, "frames over mutual TLS")

    f.box(36, 454, 728, 142, SERVER)
    heading = "All three servers jointly, on replicated bit shares"
    f.text(400, 477, heading, 14, SERVER[2], True, "middle", room=700)
    columns, wide = (50, 296, 542), 208
    steps = (
        ("Sum", "A circuit adds up the three shares of each row."),
        ("Minimum", "A tournament of pairs finds the smallest value."),
        ("Select", "One-hot bits of the winner select its record."),
    )
    for number, (x, (title, text)) in enumerate(zip(columns, steps), 3):
        f.step(x, 490, wide, 90, number, title, text, on_paper(SERVER))
    for near, far in zip(columns, columns[1:]):
        f.arrow([(near + wide + 3, 536), (far - 3, 536)], SERVER)
    f.note(
        640,
        "The user learns one record and its cost, or that no row matches. Each server sees only"
        " random bits.",
    )
    return f


def build():
    """A table becomes a bundle, which every operator serves."""
    f = Figure(
        "build.svg", 800, 708, "From a table to running servers",
        "The institution reads a table twice, encodes the accepted rows as levels, signs the"
        " records and writes a bundle. Every operator gets the same bundle and the same root key"
        " and serves them.",
    )  # fmt: skip
    f.box(20, 20, 760, 372, on_paper(INSTITUTION), radius=10)
    f.actor(20, 20, 760, "Institution", "ifonly build", INSTITUTION)
    columns, wide = (36, 227, 418, 609), 155
    steps = (
        (None, "Table", "CSV, Parquet or Arrow; all rows, accepted and rejected."),
        (1, "Infer", "First pass: kinds, bounds and scales of the columns."),
        (2, "Encode", "Second pass: levels and texts of the accepted rows."),
        (3, "Sign", "Sign each record. Choose the schemes. Write the files."),
    )
    for x, (number, title, text) in zip(columns, steps):
        f.step(x, 82, wide, 116, number, title, text, INSTITUTION if number else NEUTRAL)
    for near, far in zip(columns, columns[1:]):
        f.arrow([(near + wide + 3, 140), (far - 3, 140)], INSTITUTION)

    f.arrow([(columns[3] + wide / 2, 201), (columns[3] + wide / 2, 226)], INSTITUTION)
    f.box(227, 230, 537, 146, NEUTRAL)
    f.text(243, 254, "Bundle", 14, INK, True)
    files = (
        ("manifest.json", "public: schema, limits, schemes, operators"),
        ("rows", "secret: the accepted rows as levels"),
        ("records", "secret: the accepted rows as signed text"),
        ("checksums", "secret: hashes of the three files"),
    )
    for n, (name, content) in enumerate(files):
        f.text(243, 280 + 25 * n, name, 13, INK, True, room=115)
        f.text(362, 280 + 25 * n, content, 13, SOFT, room=390)
    f.box(36, 230, wide, 146, on_paper(INSTITUTION), dashed=True)
    f.text(50, 257, "Signing key", 14, INSTITUTION[2], True, room=135)
    f.lines(50, 281, "Stays with the institution. It is never copied to a server.", 129, most=5)

    columns, wide, top = (20, 288, 556), 224, 448
    centres = [x + wide / 2 for x in columns]
    f.add(
        f'<path d="M400 376 V420 M{centres[0]:g} 420 H{centres[2]:g}" fill="none"'
        f' stroke="{SERVER[2]}" stroke-width="1.8"/>'
    )
    f.text(414, 411, "the same files to every operator", 12, SERVER[2], room=260)
    for n, (x, centre) in enumerate(zip(columns, centres)):
        f.arrow([(centre, 420), (centre, top - 3)], SERVER)
        f.box(x, top, wide, 214, SERVER, radius=10)
        f.actor(x, top, wide, f"Server {'12N'[n]}", f"operator {'ABX'[n]}, ifonly serve", SERVER)
        for m, text in enumerate(("a copy of the bundle", "the common root key")):
            y = top + 58 + 30 * m
            f.box(x + 12, y, wide - 24, 24, on_paper(SERVER), radius=12)
            f.text(centre, y + 16.5, text, 12.5, SERVER[2], anchor="middle", room=wide - 40)
        f.step(
            x + 12, top + 120, wide - 24, 82, 4, "Load",
            "Check the files. Encode the records (AONT).", on_paper(SERVER),
        )  # fmt: skip
    f.note(
        688,
        "Clients get the manifest from the servers. The other files stay with the operators.",
    )
    return f


FIGURES = (search, sealed, build)


def main():
    parser = argparse.ArgumentParser(description="Draws the protocol figures as SVG.")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a file differs")
    check = parser.parse_args().check
    stale = []
    for figure in (draw() for draw in FIGURES):
        path = HERE / figure.name
        text = figure.svg()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(figure.name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.exit(f"out of date: {', '.join(stale)}; run python3 docs/figures/draw.py")


if __name__ == "__main__":
    main()
