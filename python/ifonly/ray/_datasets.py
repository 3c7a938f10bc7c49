"""Ray Data with rows in order and without its own progress output."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Generator, Iterator
from typing import Any

from ..errors import MachineError


def data() -> Any:
    """Returns the module ``ray.data``."""
    try:
        return importlib.import_module("ray.data")
    except ImportError as error:
        raise ImportError(f"Ray Data is not complete ({error}); install it with: pip install 'ifonly[ray]'") from error


def is_dataset(given: object) -> bool:
    """Whether ``given`` is a Ray dataset. Does not import Ray Data."""
    return type(given).__module__.partition(".")[0] == "ray" and hasattr(given, "map_batches")


@contextlib.contextmanager
def in_order(*datasets: Any) -> Iterator[None]:
    """Makes these and new datasets yield rows in order and without progress bars.

    At the end all settings are restored.
    """
    # A dataset uses the settings that were current when it was created, sometimes as a copy.
    contexts = {id(context): context for context in (data().DataContext.get_current(), *(dataset.context for dataset in datasets))}
    with contextlib.ExitStack() as before:
        for context in contexts.values():
            _set(before, context.execution_options, "preserve_order", True)
            _set(before, context, "enable_progress_bars", False)
        # Show warnings only; Ray's log files have the rest. Suppress the note that bars are off.
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
    """Yields the results of a task for all items, in order and as soon as they are ready.

    Items are numbered from 0; ``known`` has arguments that all calls get. If the caller closes the
    generator, tasks that have not begun never run.
    """
    # One block per item makes one Ray task per item.
    blocks = data().from_items(items, override_num_blocks=len(items))
    waiting: dict[int, dict[str, Any]] = {}
    done = 0
    for row in blocks.map(task, fn_kwargs=known, num_cpus=num_cpus).iter_rows():
        waiting[row["number"]] = row
        # The setting preserve_order already orders results; this does not rely on it.
        while done in waiting:
            yield waiting.pop(done)
            done += 1
    if done != len(items):
        raise MachineError(f"Ray Data returned {done} results for {len(items)} parts")
