"""Logs: a JSON line an event, on stderr."""

import logging
import sys
from contextvars import ContextVar

import structlog

# of the request that is being answered, where there is no scope. Not merged into all lines: what
# a request starts (a commit, a fit) is not that request's
REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")


def configure_logs(level: str) -> None:
    """Write events of at least `level`."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
