"""The only import of Ray. Type checkers cannot check its remote calls."""

from __future__ import annotations

import importlib
from typing import Any

try:
    ray: Any = importlib.import_module("ray")
    #: The cluster's small key-value store, which outlives actors.
    store: Any = importlib.import_module("ray.experimental.internal_kv")
except ImportError as error:
    raise ImportError("ifonly.ray needs Ray; install it with: pip install 'ifonly[ray]'") from error

#: The Ray namespace of all actors.
NAMESPACE = "ifonly"


def start(address: str | None = None) -> None:
    """Connects to a cluster or starts a local one, unless Ray is already initialised."""
    if not ray.is_initialized():
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False)
