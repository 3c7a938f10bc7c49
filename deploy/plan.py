"""Computes the cores, bytes and machines that a server needs, by the formulas of docs/scaling.md.

    python3 deploy/plan.py                                 the table of docs/scaling.md
    python3 deploy/plan.py --rows 1e9 --searches 1e4       one size in detail

This program measures nothing. The costs per row are measurements of docs/records/, which names the
command of each. The program multiplies them for machines as described by --cores, --memory and
--network.
"""

import argparse
import math

# Nanoseconds per row of 32 bytes: the scan of one server, `ifonly bench --rounds 15` on one Zen 3
# core with AVX2 (docs/records/performance.md).
BASELINE = 2.32
READ = BASELINE / 1.57  # divided by its ratio to reading
GATED_TABLE = 14.8  # --row-function gated-table
SHUFFLE = 4.6
RECORDS_OF_READ = 0.75  # XOR of records: 74 to 81% of the speed of reading them
# Nanoseconds per search and server that do not depend on rows: connections, handshakes, manifest.
# An upper bound from the load test (docs/records/performance.md): 379 searches per second over
# 20,000 rows on two cores, which both servers and all clients shared.
FIXED = 1.9e6
# Sealed search on a busy machine (docs/records/sealed.md): 822 ms for 10^6 rows and 38 ms for 10^4,
# three servers and the client on two cores. These are upper bounds per row and server, and for the
# rounds. One thread computes a search.
SEALED = 822e6 * 2 / 3 / 1e6
SEALED_FIXED = 20e6
SEALED_SENT = 58.7  # bytes per row and server
SEALED_SENT_WITH_KEYS = 29.4
SEALED_MEMORY = 29.0  # bytes per row and server, for one session
SEALED_TRAFFIC = 19_374  # bytes of a client's search, for every number of rows


class Size:
    """One server of a deployment with `rows` rows and `searches` searches per second."""

    def __init__(self, rows, searches, options):
        self.rows, self.searches = rows, searches
        self.row_bytes = 4 * math.ceil(options.features * options.level_bytes / 4)
        self.record_bytes = options.record + 24
        self.data = rows * (self.row_bytes + self.record_bytes * options.epochs)
        self.options = options
        # gated-tables: two field elements per row. The record fetch reads all records and computes
        # the row order again.
        record = self.record_bytes * READ / 32 / RECORDS_OF_READ
        self.gated_ns = GATED_TABLE * options.features / 32 + SHUFFLE + SHUFFLE + record
        self.gated_answer = rows * 2 * options.bits / 8
        self.gated_upload = rows / 8
        # Two values per row. A server that holds all rows stores each in at least 4 bytes.
        self.value_bytes = 2 * math.ceil(options.bits / 8)
        self.kept_bytes = max(8, self.value_bytes)

    def cores(self, fixed, nanoseconds):
        return self.searches * (fixed + self.rows * nanoseconds) * 1e-9

    def families(self):
        """(name, cores, bytes/s to clients, bytes/s to other servers, memory per running search)"""
        gated = self.cores(FIXED, self.gated_ns)
        sealed = self.cores(SEALED_FIXED, SEALED)
        yield "gated-tables", gated, self.searches * self.gated_answer, 0, self.rows * (4 + self.kept_bytes)
        between = self.searches * self.rows * SEALED_SENT
        yield "sealed", sealed, self.searches * SEALED_TRAFFIC / 3, between, self.rows * SEALED_MEMORY

    def machines(self, cores, network, working):
        """Machines by cores, by network and by memory."""
        options = self.options
        return (
            math.ceil(cores / (options.cores * options.use)),
            math.ceil(network / (options.network * options.use)),
            math.ceil((self.data + working) / options.memory),
        )

    def shape(self, name, cores, network, working):
        by_cores, by_network, by_memory = self.machines(cores, network, working)
        count = max(by_cores, by_network, by_memory)
        if name == "gated-tables" and self.gated_answer * 2 > self.options.download:
            return "no: download too large"
        if name == "sealed" and self.rows * SEALED * 1e-9 > self.options.max_seconds:
            return "no: too slow"
        if count > 1000:
            return f"no: {plain(count)} machines"
        if count == 1:
            return "1"
        if by_memory > 1:
            copies = math.ceil(count / by_memory)
            return f"{copies * by_memory}, in {by_memory} shards" + (f" x {copies}" if copies > 1 else "")
        return f"{count} replicas" if name == "gated-tables" else f"{count} sets"


def amount(number, unit=""):
    """Three significant digits, with k, M, G, T or P before the unit."""
    power = max(0, min(5, math.floor(math.log10(number) / 3))) if number else 0
    return f"{number / 1000**power:.3g} {' kMGTP'[power].strip()}{unit}".strip()


def plain(number):
    """A count with two significant digits."""
    return f"{number:.2g}" if number < 10 else f"{float(f'{number:.2g}'):,.0f}"


def power(number):
    exponent = round(math.log10(number))
    return "1" if exponent == 0 else "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(exponent)) if 10**exponent == number else plain(number)


def table(options):
    print("| rows | searches/s | rows and records | gated-tables: download | cores | to clients | machines | sealed: cores | between servers | machines |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for rows in (1e4, 1e6, 1e8, 1e9):
        for searches in (1, 1e2, 1e4):
            size = Size(rows, searches, options)
            gated, sealed = size.families()
            cells = [power(rows), power(searches), amount(size.data, "B"), amount(2 * size.gated_answer, "B"), plain(gated[1]), amount(gated[2], "B/s")]
            cells += [size.shape(gated[0], gated[1], gated[2], gated[4]), plain(sealed[1]), amount(sealed[3], "B/s")]
            cells += [size.shape(sealed[0], sealed[1], sealed[2] + sealed[3], sealed[4])]
            print("| " + " | ".join(cells) + " |")


def one(options):
    size = Size(options.rows, options.searches, options)
    print(f"{power(options.rows)} rows, {power(options.searches)} searches per second: {amount(options.rows * options.searches)} rows per second and server")
    print(f"rows {amount(size.rows * size.row_bytes, 'B')}, records {amount(size.rows * size.record_bytes * options.epochs, 'B')}")
    print(f"reading the rows once per search: {amount(size.rows * size.searches * size.row_bytes, 'B/s')}")
    print(f"cheapest scan (Baseline): {plain(size.cores(0, BASELINE))} cores")
    for name, cores, clients, between, working in size.families():
        by_cores, by_network, by_memory = size.machines(cores, clients + between, working)
        print(f"{name}: {plain(cores)} cores, {amount(clients, 'B/s')} to clients, {amount(between, 'B/s')} to other servers, {amount(working, 'B')} of memory per running search")
        print(f"  machines by cores {plain(by_cores)}, by network {plain(by_network)}, by memory {plain(by_memory)}")
    gated, sealed = size.families()
    seconds = sealed[1] / size.searches
    print(f"a search with gated-tables: {amount(2 * size.gated_answer, 'B')} down, {amount(2 * size.gated_upload, 'B')} up for the record, {amount(gated[1] / size.searches, 's')} of core time per server")
    print(f"  {amount(size.rows * size.value_bytes, 'B')} from shards to their frontend")
    print(f"a sealed search: {amount(SEALED_TRAFFIC, 'B')}, {amount(seconds, 's')} of core time per server, {amount(size.rows * SEALED_SENT, 'B')} sent by each server ({amount(size.rows * SEALED_SENT_WITH_KEYS, 'B')} with keys)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float)
    parser.add_argument("--searches", type=float, default=1, help="searches per second")
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--level-bytes", type=int, choices=(1, 2), default=1, help="2 if any max level exceeds 255")
    parser.add_argument("--bits", type=int, default=25, help="bits of a field element of gated-tables; `ifonly inspect` prints it")
    parser.add_argument("--record", type=int, default=160, help="bytes of a record with its signature")
    parser.add_argument("--epochs", type=int, default=1, help="key epochs held at once")
    parser.add_argument("--cores", type=int, default=64, help="cores of a machine")
    parser.add_argument("--memory", type=float, default=256e9, help="bytes of memory of a machine")
    parser.add_argument("--network", type=float, default=25e9 / 8, help="network bytes per second of a machine")
    parser.add_argument("--use", type=float, default=0.7, help="average share of cores and network that may be in use")
    parser.add_argument("--download", type=float, default=100e6, help="maximum bytes that a client downloads in a search")
    parser.add_argument("--max-seconds", type=float, default=30, help="maximum seconds of a search")
    options = parser.parse_args()
    if options.rows is None:
        table(options)
    elif options.rows >= 1 and options.searches > 0:
        one(options)
    else:
        parser.error("--rows must be at least 1 and --searches greater than 0")


if __name__ == "__main__":
    main()
