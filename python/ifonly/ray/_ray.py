"""Ray, in one place. Its calls are made at run time (``.remote``), which no type checker follows."""

from __future__ import annotations

import importlib
from typing import Any

try:
    ray: Any = importlib.import_module("ray")
    #: The cluster's own small store, which outlives actors.
    store: Any = importlib.import_module("ray.experimental.internal_kv")
except ImportError as error:
    raise ImportError("ifonly.ray needs Ray: pip install 'ifonly[ray]'") from error

#: Where all actors have their names.
NAMESPACE = "ifonly"


def start(address: str | None = None) -> None:
    """Meets a cluster, or starts a local one, unless that has been done."""
    if not ray.is_initialized():
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False)
