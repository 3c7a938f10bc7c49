"""Servers on loopback, for notebooks and tests, and keys."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from . import _ifonly
from ._ask import Explainer
from ._build import StrPath


class Deployment:
    """Running servers. They stop at the end of ``with``, by :meth:`stop`, or with the process."""

    def __init__(self, servers: _ifonly.Servers) -> None:
        self._servers = servers

    @property
    def servers(self) -> list[str]:
        """The addresses of the servers, by index."""
        return self._servers.urls

    def explainer(self, **options: Any) -> Explainer:
        """Connects to the servers; ``options`` are those of :class:`ifonly.Explainer`."""
        return Explainer(self.servers, **options)

    def stop(self) -> None:
        """Stops the servers after running answers have finished."""
        self._servers.stop()

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<ifonly.Deployment: {', '.join(self.servers)}>"


def serve(bundle: StrPath, servers: int | None = None, *, keys: Iterable[StrPath] = ()) -> Deployment:
    """Starts the servers of a bundle on free loopback ports, in this process, with real HTTP.

    It starts all servers, or the first ``servers``. ``keys`` are files with root keys; without
    them a new root key is used. A party that runs all servers could read the queries, so a real
    deployment runs ``ifonly serve`` at operators that do not collude.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [34, 51, 28], "pay": [21, 9, 39]})
    >>> import ifonly
    >>> with serve(ifonly.build(table, "staff.bundle"), servers=2) as deployment:
    ...     len(deployment.servers)
    2
    """
    return Deployment(_ifonly.serve(os.fspath(bundle), servers, [os.fspath(key) for key in keys]))


def keygen(path: StrPath, *, epoch: int = 0, signing_key: bool = False) -> str:
    """Writes a new key to a file that only its owner can read. It never overwrites a file.

    The default is a root key, which all servers of a deployment need and no other party may have.
    The result is its fingerprint, which operators compare. ``signing_key`` makes a key that signs
    records, which no server may have; the result is then its public key.
    """
    if signing_key:
        return _ifonly.signing_key(os.fspath(path))
    return _ifonly.keygen(os.fspath(path), epoch)
