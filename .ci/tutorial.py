#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md and compares their output with the text in it.

    python3 .ci/tutorial.py [PATH-OF-IFONLY]        default: target/debug/ifonly

The commands are the fenced blocks marked `sh`. One shell runs all of them in a temporary folder.
A block marked `text` is the expected output of the commands before it:
  - Its lines must appear in the output in this order. Other lines may appear between them.
  - `…` stands for any text. A line that is only `…` says that lines are omitted.
  - The number of spaces makes no difference.

The ports of the tutorial are replaced by free ones.
"""

import contextlib
import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TUTORIAL = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)")
SECONDS = 120


def steps():
    """Pairs of commands and expected output, with free ports in both."""
    text = TUTORIAL.read_text(encoding="utf-8")
    ports = dict(zip(sorted(set(ADDRESS.findall(text))), free_ports(9)))
    found = []
    for kind, block in BLOCK.findall(ADDRESS.sub(lambda port: f"127.0.0.1:{ports[port[1]]}", text)):
        if kind == "sh":
            found.append([block, ""])
        elif kind == "text":
            found[-1][1] += block
    return found


def free_ports(count):
    """Ports that were free a moment ago. All are bound at once, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Shell:
    """A shell that stays open between the blocks, with its output in a queue."""

    def __init__(self, folder, ifonly):
        path = f"{ifonly.parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"}
        self.folder = pathlib.Path(folder)
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-e"],
            cwd=folder, env=environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def run(self, number, commands, expected):
        """Runs one block until it has ended and its expected output is complete."""
        file, end = self.folder / f".block-{number}", f"end of block {number}"
        file.write_text(commands)
        self.process.stdin.write(f". ./{file.name} < /dev/null\necho '{end}'\n")
        self.process.stdin.flush()
        missing = [line for line in expected.splitlines() if line.strip() not in ("", "…")]
        output, ended, deadline = [], False, time.monotonic() + SECONDS
        while not ended or missing:
            line = self.next_line(deadline if not ended else min(deadline, time.monotonic() + 10))
            if line is None:
                return output, missing, ended
            if line.endswith(end):
                ended = True
                continue
            output.append(line)
            if missing and matches(missing[0], line):
                missing.pop(0)
        return output, [], True

    def next_line(self, deadline):
        try:
            return self.lines.get(timeout=max(0, deadline - time.monotonic()))
        except queue.Empty:
            return None

    def close(self):
        """Ends the shell and everything that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()


def matches(expected, line):
    parts = [re.escape(" ".join(part.split())) for part in expected.split("…")]
    return re.fullmatch(".*".join(parts), " ".join(line.split()))


def main():
    argument = sys.argv[1] if len(sys.argv) > 1 else ROOT / "target" / "debug" / "ifonly"
    ifonly = pathlib.Path(argument).resolve()
    if not ifonly.is_file():
        sys.exit(f"tutorial: {ifonly} does not exist; build it with `cargo build -p ifonly`")
    folder = tempfile.mkdtemp(prefix="ifonly-tutorial-")
    shell = Shell(folder, ifonly)
    try:
        for number, (commands, expected) in enumerate(steps(), 1):
            output, missing, ended = shell.run(number, commands, expected)
            if missing or not ended:
                fault = f"the output lacks the line\n{missing[0]}" if missing else "it failed"
                shown = "\n".join(output)
                sys.exit(f"tutorial: block {number}: {fault}\n\n{commands}\n{shown}")
            print(f"block {number}: {commands.splitlines()[0]}")
    finally:
        shell.close()
        shutil.rmtree(folder, ignore_errors=True)
    print("docs/tutorial.md: all commands succeed and print what the text shows")


if __name__ == "__main__":
    main()
