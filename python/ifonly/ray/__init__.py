"""ifonly on Ray: one logical server over many processes, bundles of large tables, and questions in bulk. ``docs/ray.md`` is the guide.

Ray places, supervises and restarts; the bytes are read, written and moved by the processes of ``ifonly`` itself.
"""

try:
    import ray as _ray  # noqa: F401
except ImportError as error:
    raise ImportError("ifonly.ray needs Ray: pip install 'ifonly[ray]'") from error

from ._ask import ask
from ._build import build
from ._deploy import Deployment, Status, connect, deploy
from ._run import Asked

__all__ = [
    "Asked",
    "Deployment",
    "Status",
    "ask",
    "build",
    "connect",
    "deploy",
]
