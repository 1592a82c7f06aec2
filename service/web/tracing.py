"""Opens OpenTelemetry tracing where it is wanted; nothing of it is loaded elsewhere."""

from typing import TYPE_CHECKING

from service.base.server_settings import Settings
from service.storage.ports import Refused

if TYPE_CHECKING:
    from service.web.spans import Tracing


def open_tracing(program: str, settings: Settings) -> "Tracing | None":
    """Return what makes spans of a "server" or "worker"; None unless `LHB_TRACES` is set.

    `Refused` is raised if the extra `opentelemetry` is not installed.
    """
    if not settings.traces:
        return None
    try:
        from service.web.spans import Tracing
    except ModuleNotFoundError as error:
        raise Refused(
            f"LHB_TRACES needs {error.name}, which is not installed: "
            "pip install 'long-horizon-bandits[opentelemetry]'"
        ) from None
    return Tracing(program)
