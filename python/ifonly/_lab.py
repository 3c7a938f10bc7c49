"""Leakage of searches, and attacks by users who exploit it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _frames, _ifonly

if TYPE_CHECKING:
    import pandas as pd

    from ._build import StrPath


def leakage(
    scheme: str | Iterable[str],
    *,
    bundle: StrPath | None = None,
    r: int | None = None,
    d: int | None = None,
    m: int | None = None,
    d_min: int = 1,
    immutable: int = 0,
    within: int = 0,
    weights: Iterable[int] = (),
    p: int | None = None,
    metric: str | None = None,
    shuffle: bool = False,
    replace: bool = False,
    base: float = 2.0,
    samples: int | None = None,
    max_queries: int = 64,
    seed: int = 1,
) -> pd.DataFrame:
    """Returns how many bits about the rows one search reveals to its user; one row per scheme.

    The result is exact, or estimated if ``samples`` is given. The arguments are those of
    ``ifonly leakage``: levels ``0..=r``, ``d`` features, ``m`` rows; or the rows of a ``bundle``.

    >>> found = leakage(["gated", "single-phase"], r=3, d=2, m=2, immutable=1)
    >>> found[["scheme", "method"]].values.tolist()
    [['gated', 'exact'], ['single-phase', 'exact']]
    """
    wanted: dict[str, Any] = {
        "r": r, "d": d, "m": m, "d_min": d_min, "immutable": immutable, "within": within, "weights": list(weights), "p": p,
        "metric": metric, "shuffle": shuffle, "replace": replace, "base": base, "samples": samples,
        "max_queries": max_queries, "seed": seed,
    }  # fmt: skip
    wanted = {key: value for key, value in wanted.items() if value is not None}
    names = [scheme] if isinstance(scheme, str) else list(scheme)
    path = None if bundle is None else os.fspath(bundle)
    return _frames.frame([json.loads(_ifonly.leakage(json.dumps({**wanted, "scheme": name}), path)) for name in names])


def attacks() -> list[str]:
    """Returns the names of the attacks."""
    return _ifonly.attacks()


def attack(name: str = "radix", *, bundle: StrPath | None = None, seed: int = 1) -> pd.DataFrame:
    """Simulates an attack over many searches, as ``ifonly attack`` does, and returns its table.

    With a ``bundle``, the radix attack runs against every scheme that the bundle offers. ``.attrs``
    has ``title`` and ``text``.

    >>> attack("stopping").attrs["title"]  # doctest: +ELLIPSIS
    '...'
    """
    item = json.loads(_ifonly.attack(name, seed, None if bundle is None else os.fspath(bundle)))
    frame = _frames.pandas().DataFrame(item["rows"], columns=item["columns"])
    frame.attrs.update(title=item["title"], text=item["text"])
    return frame  # type: ignore[no-any-return]
