"""Logs: one JSON line per event, on stderr. No line holds a secret, a context or a reward."""

import logging
import re
import sys
import traceback
import warnings
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any

import structlog

from service.base.problems import Problem

# Id of the batch that is being answered, whose code has no ASGI scope. It is not added to all log
# lines: a commit or a fit that a request starts inherits this context, but is not that request's
# own.
REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
# before a trajectory's key, an event id or a category in a path
PERSONAL = re.compile(
    r"/v1/sessions/.*?/(trajectories|decisions|features)/(?=.)|/personalizer/.*?/events/(?=.)",
    re.DOTALL,  # a key may begin with a line break, too
)

log = structlog.get_logger()


def configure_logs(level: str) -> None:
    """Configure structlog to write events of at least this level, like "info"."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            _where_it_was_raised,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.lastResort = _Libraries(logging.WARNING)
    warnings.showwarning = _log_warning


class _Libraries(logging.Handler):
    """Writes what a library logs as a line of ours, without its parameters.

    These, and the text of an exception, may hold what a client sent.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        text, error = str(record.msg), record.exc_info and record.exc_info[1]
        log.log(record.levelno, "library", of=record.name, said=text, exc_info=error or None)


def _log_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    """Write a warning of Python's as a line of ours: its text may hold what a client sent."""
    log.warning("library", of=f"{filename}:{lineno}", said=category.__name__)


def log_failure(problem: Problem, request_id: str, path: str, **more: Any) -> None:
    """Write the line of an answer with status 5xx, with its cause."""
    write = log.error if problem.status == 500 else log.warning
    code, cause = problem.code.value, str(problem)
    write("failed", request_id=request_id, path=path, code=code, cause=cause, **more)


def shown_path(path: str) -> str:
    """Return a path for a log: a key, an event id and a category may be a person's."""
    start = PERSONAL.match(path)
    return path if start is None else f"{start[0]}..."


def _where_it_was_raised(
    _: Any, __: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace an exception by its class and its frames: a message may hold what a client sent."""
    info = event.pop("exc_info", None)
    error = sys.exc_info()[1] if info is True else info
    raised = []
    while isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)
        at = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        raised.append({"error": type(error).__qualname__, "at": at})
        error = error.__cause__ or error.__context__
    if raised:
        event["raised"] = raised
    return event
