"""What the service refuses, as exceptions: one class for each kind of answer to it."""

from collections.abc import Mapping
from typing import Any

from .settings import ProblemCode


class ApiError(Exception):
    """The service refused a request.

    Attributes
    ----------
    status : int
        HTTP status.
    code : str
        The problem code (docs/problem-codes.md); ``http_error`` where the answer holds none.
    detail : str
        A sentence for people.
    field : str or None
        The offending field.
    problem : mapping
        The whole answer.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status, self.problem = status, problem
        self.code: ProblemCode = problem.get("code", "http_error")
        self.detail = str(problem.get("detail", ""))
        self.field: str | None = problem.get("field")
        where = f" ({self.field})" if self.field else ""
        super().__init__(f"{status or ''} {self.code}{where}: {self.detail}".lstrip())


class Invalid(ApiError):
    """The request is wrong as it stands: malformed, too large, or of wrong values."""


class Unauthorized(ApiError):
    """The request carries no key that the service knows."""


class NotFound(ApiError):
    """There is no such session, event or route."""


class Conflict(ApiError):
    """The request contradicts what is stored: another body under a known id, or an archive."""


class TooManyRequests(ApiError):
    """The rate limit is exceeded, after all retries."""


class Unavailable(ApiError):
    """The service cannot serve just now, or was not reached, after all retries.

    Where no answer came, `status` is 0 and `code` is ``unreachable``.

    A write may have been made or not: repeat it with the same id, and it is made once.
    """


class BufferFull(Exception):
    """The offline buffer holds as many rewards as it may, and the service does not take them now.

    None of them was given up. The reward at hand was neither kept nor sent.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"the buffer holds {limit} rewards at most, and there is no room for more")


_KINDS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    404: NotFound,
    409: Conflict,
    429: TooManyRequests,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(status: int, problem: Mapping[str, Any]) -> ApiError:
    """Return the exception for an answer. A problem code determines its status, so that decides."""
    kind = _KINDS.get(status, Invalid if 400 <= status < 500 else ApiError)
    return kind(status, problem)
