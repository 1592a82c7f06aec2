"""Logs: one JSON line per event, on stderr."""

import logging
import sys
from contextvars import ContextVar

import structlog

# Id of the request that is being answered, for code that has no ASGI scope. It is not added to all
# log lines: a commit or a fit that a request starts inherits this context, but is not that
# request's own.
REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")


def configure_logs(level: str) -> None:
    """Configure structlog to write events of at least this level, like "info"."""
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
