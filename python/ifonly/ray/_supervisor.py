"""Holds a server's process while the actor that owns it may come and go. A program of its own, of the standard library alone.

    python -I -S _leash.py SOCKET SECONDS COMMAND…

It starts the command, keeps what the process said, and listens on a Unix socket for the actor. When the actor dies the process serves on, and the actor's next life
finds it at the socket; if nobody comes within so many seconds, the process is ended. If this program itself dies, the kernel ends the process
(``PR_SET_PDEATHSIG``, on Linux). So there is never an orphan for longer than that, and a dead actor is no outage.

It leaves the actor's family by a second fork: Ray ends the children of workers that it ends.
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

# What of the process's words is kept for an actor that comes later.
MOST_LINES = 20


def main(path: str, seconds: str, command: list[str]) -> None:
    if os.path.exists(path):
        os.unlink(path)
    os.umask(0o177)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(2)
    if os.fork():
        # The actor may connect from now on.
        os._exit(0)
    os.setsid()
    os.umask(0o077)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    Leash(listener, float(seconds), command).run()
    if os.path.exists(path):
        os.unlink(path)


class Leash:
    """One process, and the actor that is there or not."""

    def __init__(self, listener: socket.socket, seconds: float, command: list[str]) -> None:
        self.listener, self.seconds = listener, seconds
        self.actor: socket.socket | None = None
        self.alone_since = time.monotonic()
        self.said: dict[str, list[str]] = {"out": [], "err": []}
        self.pending = {"out": b"", "err": b""}
        self.open = 0
        self.look = selectors.DefaultSelector()
        self.look.register(listener, selectors.EVENT_READ, "listener")
        self.child: subprocess.Popen[bytes] | None = None
        self.code: int | None = None
        self.command = command
        try:
            # This process has one thread, so code between fork and exec is safe.
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
        except OSError as error:
            self.said["err"].append(str(error))
            self.code = 127
            return
        self.child = child
        for stream, word in ((child.stdout, "out"), (child.stderr, "err")):
            assert stream is not None
            self.look.register(stream, selectors.EVENT_READ, word)
            self.open += 1

    def run(self) -> None:
        told = False
        while True:
            events = self.look.select(0.5)
            for key, _ in events:
                source: Any = key.fileobj
                if key.data == "listener":
                    self.meet()
                elif source is self.actor:
                    self.obey()
                elif key.data != "actor":
                    self.hear(source, key.data)
            # Somebody else may hold what it wrote to, so its end is not only the end of that.
            if self.child is not None and self.code is None and (self.open == 0 or not events):
                self.code = self.child.wait() if self.open == 0 else self.child.poll()
            if self.code is not None and self.actor is not None:
                told = self.tell({"end": self.code})
            if told or (self.actor is None and time.monotonic() - self.alone_since > self.seconds):
                break
        if self.child is not None and self.code is None:
            self.child.kill()
            self.child.wait()

    def meet(self) -> None:
        actor, _ = self.listener.accept()
        if self.actor is not None:
            self.leave()
        actor.settimeout(2.0)
        self.actor = actor
        self.look.register(actor, selectors.EVENT_READ, "actor")
        pid = None if self.child is None else self.child.pid
        self.tell({"command": self.command, "pid": pid, "out": self.said["out"], "err": self.said["err"]})

    def leave(self) -> None:
        assert self.actor is not None
        self.look.unregister(self.actor)
        self.actor.close()
        self.actor, self.alone_since = None, time.monotonic()

    def tell(self, message: dict[str, Any]) -> bool:
        if self.actor is None:
            return False
        try:
            self.actor.sendall(json.dumps(message).encode() + b"\n")
            return True
        except OSError:
            self.leave()
            return False

    def obey(self) -> None:
        """A byte is the number of a signal."""
        assert self.actor is not None
        try:
            numbers = self.actor.recv(64)
        except OSError:
            numbers = b""
        if not numbers:
            self.leave()
        for number in numbers:
            if self.child is not None and self.child.poll() is None:
                self.child.send_signal(number)

    def hear(self, stream: IO[bytes], word: str) -> None:
        data = os.read(stream.fileno(), 65536)
        if not data:
            self.look.unregister(stream)
            self.open -= 1
        # The last line may have no end.
        *lines, self.pending[word] = (self.pending[word] + (data or b"\n")).split(b"\n")
        for line in filter(None, lines):
            text = line.decode("utf-8", "replace")
            kept = self.said[word]
            # Addresses come first and faults last.
            if word == "out" and len(kept) < MOST_LINES:
                kept.append(text)
            elif word == "err":
                kept.append(text)
                del kept[:-MOST_LINES]
            self.tell({word: [text]})


def die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
