"""A progress bar for notebooks and terminals: tqdm's if it is installed, else a plain line."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Bar:
    """Shows how much of ``total`` is done.

    ``wanted`` turns the bar on or off. By default it is on in terminals and notebooks.
    """

    def __init__(self, what: str, total: float, wanted: bool | None) -> None:
        self._what, self._total, self._done, self._shown = what, total, 0.0, ""
        self._plain: Any = None
        self._tqdm: Any = None
        in_notebook = "ipykernel" in sys.modules
        interactive = in_notebook or (sys.stderr is not None and sys.stderr.isatty())
        if not (interactive if wanted is None else wanted):
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self._plain = None if in_notebook else sys.stderr
            return
        self._tqdm = tqdm(total=total, desc=what, leave=False)

    def __enter__(self) -> Bar:
        return self

    def at(self, done: float, what: str | None = None) -> None:
        """Shows that ``done`` of the total is done, in a stage called ``what``."""
        self._what = what or self._what
        if self._tqdm is not None:
            if what is not None:
                self._tqdm.set_description(what, refresh=False)
            self._tqdm.update(done - self._done)
        self._done = done
        if self._plain is not None:
            shown = f"{self._what}: {100 * done / max(self._total, 1e-9):3.0f} %"
            if shown != self._shown:
                self._plain.write(f"\r{shown}\x1b[K")
                self._plain.flush()
                self._shown = shown

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._tqdm is not None:
            self._tqdm.close()
        if self._plain is not None and self._shown:
            self._plain.write("\r\x1b[K")
            self._plain.flush()
