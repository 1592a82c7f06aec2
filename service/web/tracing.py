"""Opens OpenTelemetry tracing where it is wanted; nothing of it is loaded elsewhere."""

from typing import TYPE_CHECKING

from service.base.settings import Settings
from service.storage.ports import Refused

if TYPE_CHECKING:
    from service.web.spans import Tracing


class TracingRefused(Refused):
    """Traces are wanted, and the extra that makes them is not installed."""


def open_tracing(program: str, settings: Settings) -> "Tracing | None":
    """Return what makes spans; None unless `LHB_TRACES` is set.

    Parameters
    ----------
    program : str
        "server" or "worker".
    settings : Settings

    Raises
    ------
    TracingRefused
        The extra `opentelemetry` is not installed.
    """
    if not settings.traces:
        return None
    try:
        from service.web.spans import Tracing
    except ModuleNotFoundError as error:
        raise TracingRefused(
            f"LHB_TRACES needs {error.name}, which is not installed: "
            "pip install 'long-horizon-bandits[opentelemetry]'"
        ) from None
    return Tracing(program)
