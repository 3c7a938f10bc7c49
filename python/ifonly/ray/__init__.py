"""ifonly on Ray. ``docs/ray.md`` is the guide.

This package runs one logical server as many processes, builds bundles from large tables, and runs
searches in bulk. Ray places, supervises and restarts the processes; the processes of ``ifonly``
themselves read, write and move the data.
"""

try:
    import ray as _ray_package  # noqa: F401
except ImportError as error:
    raise ImportError("ifonly.ray needs Ray; install it with: pip install 'ifonly[ray]'") from error

from ._ask import ask
from ._build import build
from ._deploy import Deployment, Status, connect, deploy
from ._run import RunResult

__all__ = [
    "Deployment",
    "RunResult",
    "Status",
    "ask",
    "build",
    "connect",
    "deploy",
]
