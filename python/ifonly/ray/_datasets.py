"""Ray Data as it is used here: rows in their order, and no talk beside ifonly's own."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Generator, Iterator
from typing import Any

from ..errors import MachineError


def data() -> Any:
    """The module ``ray.data``."""
    try:
        return importlib.import_module("ray.data")
    except ImportError as error:
        raise ImportError(f"Ray Data needs more than Ray itself ({error}): pip install 'ifonly[ray]'") from error


def is_dataset(given: object) -> bool:
    """Whether this is a dataset of Ray's; Ray Data is not imported for it."""
    return type(given).__module__.partition(".")[0] == "ray" and hasattr(given, "map_batches")


@contextlib.contextmanager
def in_order(*datasets: Any) -> Iterator[None]:
    """Meanwhile these datasets, and those that are made, give their rows in order and without bars; afterwards all settings are as they were."""
    # A dataset goes by the settings that were current when it was made, in a copy of its own where Ray makes one.
    contexts = {id(context): context for context in (data().DataContext.get_current(), *(dataset.context for dataset in datasets))}
    with contextlib.ExitStack() as before:
        for context in contexts.values():
            _set(before, context.execution_options, "preserve_order", True)
            _set(before, context, "enable_progress_bars", False)
        # Warnings are for people, the rest is for Ray's own log files; that bars are off is what was asked for.
        for handler in logging.getLogger("ray.data").handlers:
            if isinstance(handler, logging.StreamHandler) and handler.level < logging.WARNING:
                _set(before, handler, "level", logging.WARNING)
        bars = logging.getLogger("ray.data._internal.progress")
        before.callback(bars.setLevel, bars.level)
        bars.setLevel(logging.ERROR)
        yield


def _set(before: contextlib.ExitStack, holder: Any, name: str, value: Any) -> None:
    before.callback(setattr, holder, name, getattr(holder, name))
    setattr(holder, name, value)


def each(task: Any, items: list[dict[str, Any]], known: dict[str, Any], num_cpus: float) -> Generator[dict[str, Any], None, None]:
    """What a task, which also gets what all should know, gives for each of the items, which are numbered from 0, in their order and as they come.

    Whoever wants no more closes this, and tasks that have not begun never do.
    """
    # A block for every item, so a task of Ray's for every item.
    blocks = data().from_items(items, override_num_blocks=len(items))
    waiting: dict[int, dict[str, Any]] = {}
    done = 0
    for row in blocks.map(task, fn_kwargs=known, num_cpus=num_cpus).iter_rows():
        waiting[row["number"]] = row
        # In order anyway, as long as settings mean what they say.
        while done in waiting:
            yield waiting.pop(done)
            done += 1
    if done != len(items):
        raise MachineError(f"Ray Data gave {done} results for {len(items)} parts")
