"""Keeps a server's process while Ray restarts the actor that owns it.

    python -I -S _supervisor.py SOCKET SECONDS COMMAND…

This is a separate program that uses only the standard library. It starts the command, keeps the
process's output, and listens on a Unix socket for the actor. If the actor dies, the process
continues to serve, and the restarted actor finds it at the socket. If no actor connects within
SECONDS, the program kills the process. If the program itself dies, the kernel kills the process
(``PR_SET_PDEATHSIG``, on Linux). So no orphan lives longer than SECONDS, and a dead actor causes no
outage.

The program leaves the actor's process tree by a second fork, because Ray kills the children of
workers that it kills.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import IO, Any

# Lines of output that are kept for an actor that connects later.
MOST_LINES = 20


def main(path: str, seconds: str, command: list[str]) -> None:
    if os.path.exists(path):
        os.unlink(path)
    os.umask(0o177)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(2)
    if os.fork():
        # From now on the actor can connect.
        os._exit(0)
    os.setsid()
    os.umask(0o077)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    Supervisor(listener, float(seconds), command).run()
    if os.path.exists(path):
        os.unlink(path)


class Supervisor:
    """One process, and the actor if it is connected."""

    def __init__(self, listener: socket.socket, seconds: float, command: list[str]) -> None:
        self.listener, self.seconds = listener, seconds
        self.actor: socket.socket | None = None
        self.alone_since = time.monotonic()
        self.output: dict[str, list[str]] = {"out": [], "err": []}
        self.pending = {"out": b"", "err": b""}
        self.open_streams = 0
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ, "listener")
        self.child: subprocess.Popen[bytes] | None = None
        self.code: int | None = None
        self.command = command
        try:
            # This process has one thread, so code between fork and exec is safe.
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
        except OSError as error:
            self.output["err"].append(str(error))
            self.code = 127
            return
        self.child = child
        for stream, name in ((child.stdout, "out"), (child.stderr, "err")):
            assert stream is not None
            self.selector.register(stream, selectors.EVENT_READ, name)
            self.open_streams += 1

    def run(self) -> None:
        reported = False
        while True:
            events = self.selector.select(0.5)
            for key, _ in events:
                source: Any = key.fileobj
                if key.data == "listener":
                    self.accept()
                elif source is self.actor:
                    self.forward_signals()
                elif key.data != "actor":
                    self.read_output(source, key.data)
            # Another process may hold its output open, so poll for its end too.
            if self.child is not None and self.code is None and (self.open_streams == 0 or not events):
                self.code = self.child.wait() if self.open_streams == 0 else self.child.poll()
            if self.code is not None and self.actor is not None:
                reported = self.send({"end": self.code})
            if reported or (self.actor is None and time.monotonic() - self.alone_since > self.seconds):
                break
        if self.child is not None and self.code is None:
            self.child.kill()
            self.child.wait()

    def accept(self) -> None:
        actor, _ = self.listener.accept()
        if self.actor is not None:
            self.disconnect()
        actor.settimeout(2.0)
        self.actor = actor
        self.selector.register(actor, selectors.EVENT_READ, "actor")
        pid = None if self.child is None else self.child.pid
        self.send({"command": self.command, "pid": pid, "out": self.output["out"], "err": self.output["err"]})

    def disconnect(self) -> None:
        assert self.actor is not None
        self.selector.unregister(self.actor)
        self.actor.close()
        self.actor, self.alone_since = None, time.monotonic()

    def send(self, message: dict[str, Any]) -> bool:
        if self.actor is None:
            return False
        try:
            self.actor.sendall(json.dumps(message).encode() + b"\n")
            return True
        except OSError:
            self.disconnect()
            return False

    def forward_signals(self) -> None:
        """Reads signal numbers from the actor, one byte each, and sends them to the process."""
        assert self.actor is not None
        try:
            numbers = self.actor.recv(64)
        except OSError:
            numbers = b""
        if not numbers:
            self.disconnect()
        for number in numbers:
            if self.child is not None and self.child.poll() is None:
                self.child.send_signal(number)

    def read_output(self, stream: IO[bytes], name: str) -> None:
        data = os.read(stream.fileno(), 65536)
        if not data:
            self.selector.unregister(stream)
            self.open_streams -= 1
        # The last line may lack its line feed.
        *lines, self.pending[name] = (self.pending[name] + (data or b"\n")).split(b"\n")
        for line in filter(None, lines):
            text = line.decode("utf-8", "replace")
            kept = self.output[name]
            # Keep the first lines of standard output (addresses) and the last of standard error.
            if name == "out" and len(kept) < MOST_LINES:
                kept.append(text)
            elif name == "err":
                kept.append(text)
                del kept[:-MOST_LINES]
            self.send({name: [text]})


def die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
