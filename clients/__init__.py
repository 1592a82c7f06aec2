"""What others use to talk to the service: the Python client, the CLI, the simulator, benchmarks.

The names below are the public ones, loaded when first asked for. Begin reading with
`sdk/client.py`. This file and `sdk` import each other relatively: in the wheel, this package is
`lhb.clients`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .sdk.client import AsyncClient, Client
    from .sdk.errors import (
        ApiError,
        BufferFull,
        Conflict,
        Invalid,
        NotFound,
        TooManyRequests,
        Unauthorized,
        Unavailable,
    )
    from .sdk.session import AsyncSession, Session
    from .sdk.tables import plot, to_frame
    from .sdk.wire import Decision

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncSession",
    "BufferFull",
    "Client",
    "Conflict",
    "Decision",
    "Invalid",
    "NotFound",
    "Session",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "plot",
    "to_frame",
]


MODULES = {
    "AsyncClient": "client",
    "AsyncSession": "session",
    "Client": "client",
    "Decision": "wire",
    "Session": "session",
    "plot": "tables",
    "to_frame": "tables",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = MODULES.get(name, "errors")
    return getattr(import_module(f"{__name__}.sdk.{module}"), name)
