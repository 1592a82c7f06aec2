"""What goes wrong, as RFC 9457 problem details with a stable code and the field that is to blame.

Problem
├── raised by use cases and parsers; carries its HTTP status
└── Unavailable: the store cannot write just now (503, Retry-After)
"""

from typing import Any

from pydantic_core import to_json

TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Content too large",
    422: "Unprocessable content",
    429: "Too many requests",
    431: "Request header fields too large",
    500: "Internal error",
    503: "Service unavailable",
}
MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """A request that cannot be served, and why.

    Parameters
    ----------
    status : int
        HTTP status.
    code : str
        Stable, for programs.
    detail : str
        A sentence for people.
    field : str, optional
        The offending field, like ``contexts[3][0]``.
    errors : list, optional
        Every offence, where there are several: ``{code, field, detail}``.
    retry_after : int, optional
        Seconds after which another attempt makes sense.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        field: str | None = None,
        *,
        errors: list[dict[str, Any]] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.field = field
        self.errors = errors
        self.retry_after = retry_after

    def to_json(self) -> dict[str, Any]:
        """The problem document's members."""
        out: dict[str, Any] = {
            "type": f"urn:lhb:problem:{self.code}",
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "field": self.field,
        }
        if self.errors:
            out["errors"] = self.errors
        return out

    def body(self) -> bytes:
        """The problem document."""
        return to_json(self.to_json())

    def headers(self) -> dict[str, str]:
        """Headers that go with it."""
        if self.status == 401:
            return {"www-authenticate": "Bearer"}
        return {} if self.retry_after is None else {"retry-after": str(self.retry_after)}


class Unavailable(Problem):
    """The store cannot serve just now; nothing was written."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(503, code, detail, retry_after=1)


def defect(request_id: str) -> Problem:
    """500: a fault of ours, which the log tells more about."""
    return Problem(500, "internal", f"this is a defect; request {request_id} is in the log")


def not_found(what: str, detail: str, field: str | None = None) -> Problem:
    """404 with code ``unknown_<what>``."""
    return Problem(404, f"unknown_{what}", detail, field)
