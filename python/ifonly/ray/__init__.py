"""ifonly on Ray: one logical server over many processes, and questions in bulk. ``docs/ray.md`` is the guide.

Ray places, supervises and restarts; the bytes move between the processes of ``ifonly`` itself.
"""

from ._ask import ask
from ._deploy import Deployment, Status, connect, deploy
from ._run import Asked

__all__ = [
    "Asked",
    "Deployment",
    "Status",
    "ask",
    "connect",
    "deploy",
]
