"""A server's process, started again when it ends or says nothing for long, and found again when it outlived the actor that started it.

Processes are programs of their own because they serve without the interpreter; an actor only watches. Between the two is ``_leash.py``, which keeps the
process while an actor is being restarted, and ends it if none comes.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: How long a process serves on without an actor. Ray restarts one in a second or a few.
ALONE_SECONDS = 20.0
#: How long a process that cannot start waits for its next try, at most.
_PATIENCE = 5.0
#: A process that serves is asked now and then whether it is alive, and has so long to say so. One that hangs or was stopped says nothing, again
#: and again, and is ended after half a minute. A busy one may be late once; it does not take turns with its own work to answer.
_PAUSE_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_MISSES = 5
_TAIL = 20
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_LEASH = str(Path(__file__).with_name("_leash.py"))


def program(binary: str | None) -> list[str]:
    """The command line: a given executable, or this interpreter's package."""
    return [binary] if binary is not None else [sys.executable, "-m", "ifonly"]


class Process:
    """A server's process at ``place``, a path for a socket. ``command`` gives its arguments at every start, with the port that it should take;
    ``changed`` is called whenever something has."""

    def __init__(self, place: Path, command: Callable[[int], list[str]], changed: Callable[[], object], *, port: int = 0, before: int = 0) -> None:
        self._place, self._command, self._changed = place, command, changed
        # The port that it must have, or else the one that it had before, if that is still free.
        self._fixed, self._port = port, port or before
        self._stopping = threading.Event()
        self._line: socket.socket | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=_TAIL)
        #: How often it was started again.
        self.restarts = 0
        #: Whether it was there already.
        self.was_found = False
        #: The process, while there is one; where it listens, once it does: ``https://host:port``; and the admin port likewise.
        self.pid: int | None = None
        self.address: str | None = None
        self.admin: str | None = None
        #: Why it does not serve, while it does not.
        self.trouble: str | None = None
        #: Whether it did not answer when it was last asked if it is alive.
        self.silent = False
        line = self._connect()
        self.was_found = line is not None
        self._thread = threading.Thread(target=self._run, args=(line,), name="ifonly-process", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="ifonly-watch", daemon=True).start()

    @property
    def log(self) -> str:
        """The last lines that it wrote."""
        return "\n".join(self._lines)

    def signal(self, number: int) -> bool:
        """Sends a signal to a process that serves."""
        line = self._line
        if line is None or self.address is None:
            return False
        with contextlib.suppress(OSError):
            line.sendall(bytes([number]))
            return True
        return False

    def stop(self, seconds: float) -> None:
        """Lets it finish for so long, then ends it. It does not come back."""
        self._stopping.set()
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 5.0)):
            line = self._line
            if line is not None:
                with contextlib.suppress(OSError):
                    line.sendall(bytes([number]))
            self._thread.join(patience)
            if not self._thread.is_alive():
                break

    def _run(self, line: socket.socket | None) -> None:
        failures = 0
        while not self._stopping.is_set():
            served = self._once(line)
            line = None
            if self._stopping.is_set():
                break
            self.restarts += 1
            if served:
                failures = 0
            else:
                failures += 1
                # Somebody else may have the port by now; only one that was asked for is worth waiting for.
                self._port = self._fixed
            self._changed()
            if failures:
                self._stopping.wait(min(0.1 * 2**failures, _PATIENCE))

    def _watch(self) -> None:
        """Ends a process that does not answer any more, so that it is started again."""
        misses, before = 0, None
        while not self._stopping.wait(_PAUSE_SECONDS):
            # Those of one life of the process: what is asked here must not end the next one.
            line, admin = self._line, self.admin
            silent = line is not None and admin is not None and not _alive(admin) and line is self._line
            misses = 0 if not silent else misses + 1 if line is before else 1
            before = line
            if silent != self.silent:
                self.silent = silent
                self._changed()
            if misses >= _MISSES and line is not None and not self._stopping.is_set():
                print(f"process {self.pid} has not answered {misses} times in a row; it is ended and started again", file=sys.stderr, flush=True)
                misses = 0
                with contextlib.suppress(OSError):
                    line.sendall(bytes([signal.SIGKILL]))

    def _connect(self) -> socket.socket | None:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(str(self._place))
            return line
        except OSError:
            line.close()
            return None

    def _start(self) -> socket.socket:
        command = self._command(self._port)
        # A session of its own: Ray may end the group of a worker that it ends.
        leash = [sys.executable, "-I", "-S", _LEASH, str(self._place), str(ALONE_SECONDS), *command]
        made = subprocess.run(leash, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, timeout=60.0)
        line = self._connect() if made.returncode == 0 else None
        if line is None:
            raise OSError(made.stderr.strip().rpartition("\n")[2] or "nobody listens at its socket")
        return line

    def _once(self, line: socket.socket | None) -> bool:
        """One life of the process, from its start or from where it is found; whether it came to listen."""
        self._lines.clear()
        try:
            self._line = line = line or self._start()
        except (OSError, subprocess.TimeoutExpired) as error:
            self.trouble = f"cannot be started: {error}"
            return False
        if self._stopping.is_set():
            # Whoever stopped it meanwhile had nobody to tell.
            with contextlib.suppress(OSError):
                line.sendall(bytes([signal.SIGTERM]))
        code: int | None = None
        for told in _messages(line):
            self.pid = told.get("pid", self.pid)
            code = told.get("end", code)
            for text in told.get("err", ()):
                self._lines.append(text)
                # Into the actor's log, which Ray keeps and shows.
                print(text, file=sys.stderr, flush=True)
            for text in told.get("out", ()):
                self._hear(text)
            if code is not None:
                break
        served = self.address is not None
        self._line = self.pid = self.address = self.admin = None
        line.close()
        if code is None:
            how = "its keeper died"
        else:
            how = f"ended with {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self.trouble = how + (f": {self._lines[-1]}" if self._lines else "")
        return served

    def _hear(self, text: str) -> None:
        word, _, address = text.strip().rpartition(" on ")
        if word == "listening":
            self.address, self.trouble = address, None
            self._port = int(address.rpartition(":")[2])
            self._changed()
        elif word == "admin":
            self.admin = address
            self._changed()


def get(admin: str, path: str) -> Any:
    """What an admin port of this machine says; no proxy of the environment has a part in it."""
    here = admin.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    return _DIRECT.open(here + path, timeout=_ANSWER_SECONDS)


def _alive(admin: str) -> bool:
    try:
        with get(admin, "/healthz"):
            return True
    except (OSError, http.client.HTTPException):
        return False


def _messages(line: socket.socket) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OSError), line.makefile("r", encoding="utf-8") as lines:
        for text in lines:
            yield json.loads(text)
