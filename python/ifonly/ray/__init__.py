"""ifonly on Ray: bundles of tables that are too large for one machine's patience.

Ray places, supervises and restarts; the bytes are read and written by the processes of ``ifonly`` itself.
"""

try:
    import ray as _ray  # noqa: F401
except ImportError as error:
    raise ImportError("ifonly.ray needs Ray: pip install 'ifonly[ray]'") from error

from ._build import build

__all__ = [
    "build",
]
