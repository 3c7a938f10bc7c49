"""ifonly on Ray: one logical server over many processes, and questions in bulk. ``docs/ray.md`` is the guide.

Ray places, supervises and restarts; the bytes move between the processes of ``ifonly`` itself.
"""

try:
    import ray as _ray  # noqa: F401
except ImportError as error:
    raise ImportError("ifonly.ray needs Ray: pip install 'ifonly[ray]'") from error

from ._ask import Asked, ask
from ._deploy import Deployment, Status, connect, deploy

__all__ = [
    "Asked",
    "Deployment",
    "Status",
    "ask",
    "connect",
    "deploy",
]
