"""Errors of requests, as RFC 9457 problem details with a stable code and the offending field.

`ProblemCode` lists every code with its status and meaning; the OpenAPI schema and
docs/problem-codes.md (`make answers`) are made from it. Commands and parsers raise `Problem`.
"""

from enum import StrEnum
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
    415: "Unsupported media type",
    422: "Unprocessable content",
    429: "Too many requests",
    431: "Request header fields too large",
    500: "Internal error",
    503: "Service unavailable",
}
MEDIA_TYPE = "application/problem+json"


class ProblemCode(StrEnum):
    """Why a request was refused. A published code never changes its meaning or status."""

    status: int
    meaning: str

    def __new__(cls, code: str, status: int, meaning: str) -> "ProblemCode":
        """Make the string `code`, which also carries its HTTP status and its meaning."""
        member = str.__new__(cls, code)
        member._value_, member.status, member.meaning = code, status, meaning
        return member

    MALFORMED_HTTP = "malformed_http", 400, "The bytes are not an HTTP/1.1 request."
    MALFORMED_JSON = "malformed_json", 400, "The body is not JSON."
    DUPLICATE_KEY = "duplicate_key", 400, "An object in the body has the same key twice."
    HTTP_ERROR = "http_error", 400, "Another HTTP error; see the status."
    UNAUTHORIZED = "unauthorized", 401, "The request carries no key that is known and in use."
    FORBIDDEN = "forbidden", 403, "The role or the tenant of the key does not allow this."
    UNKNOWN_ROUTE = "unknown_route", 404, "There is no such path."
    UNKNOWN_SESSION = "unknown_session", 404, "There is no such session, or it is another tenant's."
    UNKNOWN_TRAJECTORY = "unknown_trajectory", 404, "The session has no trajectory with this key."
    UNKNOWN_EVENT = "unknown_event", 404, "The session has no decision with this event_id."
    UNKNOWN_REWARD = "unknown_reward", 404, "There is no reward for a correction to replace."
    UNKNOWN_FEATURE = "unknown_feature", 404, "The session has no category with this name."
    UNKNOWN_KEY = "unknown_key", 404, "There is no API key with this id."
    UNKNOWN_WEBHOOK = "unknown_webhook", 404, "The tenant has no webhook with this id."
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "The path does not take this method."
    HEADER_TIMEOUT = "header_timeout", 408, "The headers did not arrive in time."
    BODY_TIMEOUT = "body_timeout", 408, "The body did not arrive in time."
    ARCHIVED = "archived", 409, "The session is archived: it can be read, not changed."
    SESSION_CONFLICT = "session_conflict", 409, "The name's session was made with another body."
    IN_USE = "in_use", 409, "Another session's control group plays this session's agent."
    KEY_NOT_IN_USE = "key_not_in_use", 409, "The key is revoked, or has expired."
    LIMIT_REACHED = "limit_reached", 409, "The tenant or the session has as much as it may have."
    EVENT_CONFLICT = "event_conflict", 409, "The event_id or import_id came with another body."
    REWARD_CONFLICT = "reward_conflict", 409, "The round or the reward_id has another value."
    NO_CORRECTIONS = "no_corrections", 409, "What was learned from it cannot be taken back."
    ROUND_DROPPED = "round_dropped", 409, "The session keeps rows of later rounds only."
    FITS_BY_EPOCHS = "fits_by_epochs", 409, "The algorithm fits at the ends of its epochs only."
    DUPLICATE_ARM_IDS = "duplicate_arm_ids", 409, "Two arms of one decision have the same id."
    FOREIGN_HOST = "foreign_host", 403, "The Host is not the server's, nor in LHB_ALLOWED_HOSTS."
    FOREIGN_ORIGIN = "foreign_origin", 403, "Without keys, pages of other sites are refused."
    UNSUPPORTED_MEDIA_TYPE = (
        "unsupported_media_type",
        415,
        "A body is not application/json, or is compressed.",
    )
    BODY_TOO_LARGE = "body_too_large", 413, "The body is larger than LHB_MAX_BODY_BYTES."
    INVALID = "invalid", 422, "A value has the wrong type or form."
    MISSING = "missing", 422, "A required field is missing."
    UNKNOWN_FIELD = "unknown_field", 422, "The body has an unknown field."
    UNKNOWN_PARAMETER = "unknown_parameter", 422, "The route takes no such query parameter."
    AMBIGUOUS = "ambiguous", 422, "The body has fields that exclude one another."
    OUT_OF_RANGE = "out_of_range", 422, "A number, or the length of a list, is outside its range."
    NOT_FINITE = "not_finite", 422, "A number is infinite or NaN."
    WRONG_SHAPE = "wrong_shape", 422, "An array's shape does not fit the session or others."
    RAGGED = "ragged", 422, "Contexts of one set have different lengths."
    NO_COLUMN = "no_column", 422, "A feature, or a category, finds every column taken."
    NO_ARMS = "no_arms", 422, "The context set is empty."
    UNKNOWN_ALGORITHM = "unknown_algorithm", 422, "There is no algorithm of this name."
    ORACLE_REFUSED = "oracle_refused", 422, "The algorithm needs the truth (LHB_ALLOW_ORACLES)."
    BAD_OPTION = "bad_option", 422, "An option is unknown, out of range, or excluded by another."
    UNKNOWN_ROUND = "unknown_round", 422, "There is no such round, or none was under way then."
    TRAJECTORY_NEEDED = "trajectory_needed", 422, "Trajectories have keys, and none is named."
    FIT_TOO_LARGE = "fit_too_large", 422, "A fit would need more than the server allows."
    FUTURE_ROUND = "future_round", 422, "The round has not begun."
    LAST_BEFORE_FIRST = "last_before_first", 422, "A span ends before it begins."
    INTERVAL_OPEN = "interval_open", 422, "The interval of time is not over yet."
    SPAN_IN_SUM_MODE = "span_in_sum_mode", 422, 'In reward_mode "sum" a reward is of one round.'
    AT_IN_SINGLE_MODE = "at_in_single_mode", 422, 'A reward names a time in reward_mode "sum" only.'
    BAD_IMPORT = "bad_import", 422, "A record of the imported file is invalid; the detail names it."
    TOO_MANY_REQUESTS = "too_many_requests", 429, "LHB_REQUESTS_PER_SECOND is exceeded."
    HEADERS_TOO_LARGE = "headers_too_large", 431, "The headers exceed LHB_MAX_HEADER_BYTES."
    INTERNAL = "internal", 500, "An internal error: see the log under the request id."
    FIT_PENDING = "fit_pending", 503, "A fit is awaited. No round began; the rewards are stored."
    HISTORY_PENDING = "history_pending", 503, "A log is being appended: the session takes nothing."
    OVERLOADED = "overloaded", 503, "More waits than can be served soon. Nothing was written."
    ERASURE_PENDING = "erasure_pending", 503, "A trajectory is being erased; try again soon."
    TOO_MANY_CONNECTIONS = "too_many_connections", 503, "Too many connections are open."
    TOO_MANY_EXPORTS = "too_many_exports", 503, "Too many exports run already."
    TOO_MANY_STREAMS = "too_many_streams", 503, "Too many readers follow changes already."
    STORAGE_BUSY = "storage_busy", 503, "The database is locked or slow. Try again."
    STORAGE_FULL = "storage_full", 503, "The disk is full. Nothing was written."
    STORAGE_READONLY = "storage_readonly", 503, "The database cannot be written."
    STORAGE_FAILING = "storage_failing", 503, "The disk, or the database file, is damaged."
    STORAGE_NOT_DURABLE = "storage_not_durable", 503, "A setting lets PostgreSQL lose commits."
    OUTCOME_UNKNOWN = "outcome_unknown", 503, "A commit was not confirmed: send the same id again."
    STORAGE_UNREACHABLE = "storage_unreachable", 503, "The database does not answer."


class Problem(Exception):
    """A request that cannot be served, and why.

    `code` is for programs, and determines the HTTP status; `detail` is a sentence for people.
    `field` is the offending field, like ``contexts[3][0]``; `errors` are all offences where there
    are several, each ``{code, field, detail}``. `retry_after` are the seconds after which another
    attempt makes sense.
    """

    def __init__(
        self,
        code: ProblemCode,
        detail: str,
        field: str | None = None,
        *,
        errors: list[dict[str, Any]] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(code, detail)  # by which it is pickled, with its members
        self.status = code.status
        self.code = code
        # what is to blame may hold lone surrogates, an answer may not
        self.detail = detail.encode(errors="backslashreplace").decode()
        self.field = field and field.encode(errors="backslashreplace").decode()
        self.errors = errors
        self.retry_after = retry_after

    def __str__(self) -> str:
        return self.detail

    def to_json(self) -> dict[str, Any]:
        """Return the problem document's members."""
        out: dict[str, Any] = {
            "type": f"urn:lhb:problem:{self.code.value}",
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "code": self.code.value,
            "detail": self.detail,
            "field": self.field,
        }
        if self.errors:
            out["errors"] = self.errors
        return out

    def body(self) -> bytes:
        """Return the problem document, encoded."""
        return to_json(self.to_json())

    def headers(self) -> dict[str, str]:
        """Return the headers that go with the document."""
        if self.status == 401:
            return {"www-authenticate": "Bearer"}
        return {} if self.retry_after is None else {"retry-after": str(self.retry_after)}


class Unavailable(Problem):
    """A 503: the database cannot serve now. Nothing was written, unless ``outcome_unknown``.

    `cause` is the driver's or system's message, for the log alone; may name hosts and files.
    """

    def __init__(self, code: ProblemCode, detail: str, cause: str = "") -> None:
        super().__init__(code, detail, retry_after=1)
        self.cause = cause

    def __str__(self) -> str:
        """Return all that is known, for the log."""
        return f"{self.detail} ({self.cause})" if self.cause else self.detail


def outcome_unknown(reason: str, cause: str = "") -> Unavailable:
    """Make the 503 for a commit that was begun and not confirmed."""
    detail = f"{reason}; whether it was written is unknown; repeat the request with the same id"
    return Unavailable(ProblemCode.OUTCOME_UNKNOWN, detail, cause)


def defect(request_id: str) -> Problem:
    """Make the 500 for an unexpected exception; the log has the exception by request id."""
    detail = f"internal error; the server's log has the details under request id {request_id}"
    return Problem(ProblemCode.INTERNAL, detail)
