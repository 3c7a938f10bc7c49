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
    """Running servers. They stop at the end of ``with``, with :meth:`stop`, or with the process."""

    def __init__(self, servers: _ifonly.Servers) -> None:
        self._servers = servers

    @property
    def servers(self) -> list[str]:
        """Their addresses, in the order of their numbers."""
        return self._servers.urls

    def explainer(self, **options: Any) -> Explainer:
        """Meets them; ``options`` are those of :class:`ifonly.Explainer`."""
        return Explainer(self.servers, **options)

    def stop(self) -> None:
        """Lets running answers finish, then stops."""
        self._servers.stop()

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<ifonly.Deployment: {', '.join(self.servers)}>"


def serve(bundle: StrPath, servers: int | None = None, *, keys: Iterable[StrPath] = ()) -> Deployment:
    """Starts the servers of a bundle on free loopback ports, in this process: real servers, real HTTP.

    All of them, or the first ``servers``; under the root ``keys`` of these files, or under one that nobody else has. Whoever holds all servers
    could read the questions, so real deployments run ``ifonly serve`` at operators that do not collude.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [34, 51, 28], "pay": [21, 9, 39]})
    >>> import ifonly
    >>> with serve(ifonly.build(table, "staff.bundle"), servers=2) as deployment:
    ...     len(deployment.servers)
    2
    """
    return Deployment(_ifonly.serve(os.fspath(bundle), servers, [os.fspath(key) for key in keys]))


def keygen(path: StrPath, *, epoch: int = 0, sign: bool = False) -> str | None:
    """Writes a new key to a file that only its owner can read; an existing file is never overwritten.

    It is a root key, which all servers of a deployment need and nobody else may have; or with ``sign`` one that signs records, which is for
    whoever builds bundles and for no server. For a signing key the public one is given back.
    """
    if sign:
        return _ifonly.signing_key(os.fspath(path))
    _ifonly.keygen(os.fspath(path), epoch)
    return None
