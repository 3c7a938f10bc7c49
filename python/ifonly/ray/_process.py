"""A server's process: restarted when it ends or hangs, found again when its actor restarts.

The process runs without the Python interpreter; an actor only watches it. Between the two is
``_supervisor.py``, which keeps the process while Ray restarts the actor, and ends it if no actor
connects.
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

#: How long a process serves without an actor. Ray restarts an actor within a few seconds.
ORPHAN_SECONDS = 20.0
#: Maximum delay between two attempts to start a process.
_BACKOFF_SECONDS = 5.0
#: Health checks: the pause between two, the timeout of one, and how many failures in a row end a
#: process (after about half a minute). A busy process may miss one check; searches do not delay the
#: answer.
_PAUSE_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_MISSES = 5
#: Number of lines of output that are kept.
_TAIL = 20
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_SUPERVISOR = str(Path(__file__).with_name("_supervisor.py"))


def program(binary: str | None) -> list[str]:
    """Returns the command: the given executable, or this interpreter with the package."""
    return [binary] if binary is not None else [sys.executable, "-m", "ifonly"]


class Process:
    """A server's process, reached through the supervisor's socket at the path ``socket_path``.

    ``command`` returns the arguments for a start with the given port. ``changed`` is called after
    every change of state.
    """

    def __init__(self, socket_path: Path, command: Callable[[int], list[str]], changed: Callable[[], object], *, port: int = 0, before: int = 0) -> None:
        self._socket_path, self._command, self._changed = socket_path, command, changed
        # The fixed port, or else the previous one if it is still free.
        self._fixed, self._port = port, port or before
        self._stopping = threading.Event()
        self._connection: socket.socket | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=_TAIL)
        #: Number of restarts.
        self.restarts = 0
        #: Whether the process was already running.
        self.was_found = False
        #: The process ID; the address, once it listens: ``https://host:port``; the admin address.
        self.pid: int | None = None
        self.address: str | None = None
        self.admin: str | None = None
        #: Why it does not serve; None while it does.
        self.failure: str | None = None
        #: Whether it failed its last health check.
        self.silent = False
        connection = self._connect()
        self.was_found = connection is not None
        self._thread = threading.Thread(target=self._run, args=(connection,), name="ifonly-process", daemon=True)
        self._thread.start()
        threading.Thread(target=self._check_health, name="ifonly-health", daemon=True).start()

    @property
    def log(self) -> str:
        """The last lines of its standard error."""
        return "\n".join(self._lines)

    def signal(self, number: int) -> bool:
        """Sends a signal to a process that serves. Returns whether it was sent."""
        connection = self._connection
        if connection is None or self.address is None:
            return False
        with contextlib.suppress(OSError):
            connection.sendall(bytes([number]))
            return True
        return False

    def stop(self, seconds: float) -> None:
        """Gives the process this time to finish, then kills it. It is not restarted."""
        self._stopping.set()
        for number, timeout in ((signal.SIGTERM, seconds), (signal.SIGKILL, 5.0)):
            connection = self._connection
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.sendall(bytes([number]))
            self._thread.join(timeout)
            if not self._thread.is_alive():
                break

    def _run(self, connection: socket.socket | None) -> None:
        failures = 0
        while not self._stopping.is_set():
            served = self._run_once(connection)
            connection = None
            if self._stopping.is_set():
                break
            self.restarts += 1
            if served:
                failures = 0
            else:
                failures += 1
                # Another process may use the previous port by now. Insist only on a fixed port.
                self._port = self._fixed
            self._changed()
            if failures:
                self._stopping.wait(min(0.1 * 2**failures, _BACKOFF_SECONDS))

    def _check_health(self) -> None:
        """Kills a process that no longer answers, so that it is restarted."""
        misses, before = 0, None
        while not self._stopping.wait(_PAUSE_SECONDS):
            # Use one connection throughout: a check of this process must not kill its successor.
            connection, admin = self._connection, self.admin
            silent = connection is not None and admin is not None and not _alive(admin) and connection is self._connection
            misses = 0 if not silent else misses + 1 if connection is before else 1
            before = connection
            if silent != self.silent:
                self.silent = silent
                self._changed()
            if misses >= _MISSES and connection is not None and not self._stopping.is_set():
                print(f"process {self.pid} failed {misses} health checks in a row; restarting it", file=sys.stderr, flush=True)
                misses = 0
                with contextlib.suppress(OSError):
                    connection.sendall(bytes([signal.SIGKILL]))

    def _connect(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(self._socket_path))
            return connection
        except OSError:
            connection.close()
            return None

    def _start(self) -> socket.socket:
        command = self._command(self._port)
        supervisor = [sys.executable, "-I", "-S", _SUPERVISOR, str(self._socket_path), str(ORPHAN_SECONDS), *command]
        # A new session, because Ray may kill the process group of a worker.
        made = subprocess.run(supervisor, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, timeout=60.0)
        connection = self._connect() if made.returncode == 0 else None
        if connection is None:
            raise OSError(made.stderr.strip().rpartition("\n")[2] or "cannot connect to the supervisor's socket")
        return connection

    def _run_once(self, connection: socket.socket | None) -> bool:
        """Follows one process from its start, or from a connection, to its end.

        Returns whether the process came to listen.
        """
        self._lines.clear()
        try:
            self._connection = connection = connection or self._start()
        except (OSError, subprocess.TimeoutExpired) as error:
            self.failure = f"cannot be started: {error}"
            return False
        if self._stopping.is_set():
            # stop() was called before there was a connection.
            with contextlib.suppress(OSError):
                connection.sendall(bytes([signal.SIGTERM]))
        code: int | None = None
        for message in _messages(connection):
            self.pid = message.get("pid", self.pid)
            code = message.get("end", code)
            for text in message.get("err", ()):
                self._lines.append(text)
                # Copy to the actor's log, which Ray keeps and shows.
                print(text, file=sys.stderr, flush=True)
            for text in message.get("out", ()):
                self._read_address(text)
            if code is not None:
                break
        served = self.address is not None
        self._connection = self.pid = self.address = self.admin = None
        connection.close()
        if code is None:
            how = "its supervisor died"
        else:
            how = f"ended with {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self.failure = how + (f": {self._lines[-1]}" if self._lines else "")
        return served

    def _read_address(self, text: str) -> None:
        """Reads a line such as ``listening on https://host:port``."""
        word, _, address = text.strip().rpartition(" on ")
        if word == "listening":
            self.address, self.failure = address, None
            self._port = int(address.rpartition(":")[2])
            self._changed()
        elif word == "admin":
            self.admin = address
            self._changed()


def get(admin: str, path: str) -> Any:
    """Requests a path from an admin port of this machine, without a proxy."""
    here = admin.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    return _DIRECT.open(here + path, timeout=_ANSWER_SECONDS)


def _alive(admin: str) -> bool:
    try:
        with get(admin, "/healthz"):
            return True
    except (OSError, http.client.HTTPException):
        return False


def _messages(connection: socket.socket) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OSError), connection.makefile("r", encoding="utf-8") as lines:
        for text in lines:
            yield json.loads(text)
