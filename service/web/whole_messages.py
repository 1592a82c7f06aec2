"""Requests and answers that are read and written in one piece, without uvicorn's messages."""

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.base.problems import MEDIA_TYPE, TITLES, Problem
from service.personalizer.errors import is_personalizer

END_OF_HEAD = b"\r\n\r\n"
# for a browser that is shown an answer: it is data, of whoever asked, and no page
API_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
API_LINES = [f"{name.decode()}: {value.decode()}" for name, value in API_HEADERS]


def is_for_data(path: str) -> bool:
    """Return whether a path is of the API, and not a page, a metric or a state."""
    return path.startswith("/v1/") or is_personalizer(path)


class WholeMessages(HttpToolsProtocol):
    """A connection whose hot requests and answers are each one piece."""

    def take_body(self, scope: Scope) -> bytes | None:
        """Return the whole body of a request if it has arrived; None if it has to be awaited."""
        cycle = self.cycle
        if cycle.scope is not scope or cycle.more_body or cycle.disconnected:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def answer_at_once(
        self, scope: Scope, status: int, headers: bytes, request_id: str, body: bytes
    ) -> bool:
        """Write a whole answer, which takes a third of the time that uvicorn takes for its parts.

        Parameters
        ----------
        scope : ASGI scope
            Of the request.
        status : int
        headers : bytes
            Lines of headers, without length and request id.
        request_id : str
            Visible ASCII characters.
        body : bytes

        Returns
        -------
        bool
            False if nothing was written: the connection is about to close, the client does not
            read, or another request follows already.
        """
        cycle = self.cycle
        if (
            cycle.scope is not scope
            or cycle.more_body
            or cycle.disconnected
            or cycle.response_started
            or not cycle.keep_alive
            or self.flow.write_paused
            or cycle.default_headers
        ):
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        rest = headers, len(body), request_id.encode(), body
        self.transport.write(
            b"%b%bcontent-length: %d\r\nx-request-id: %b\r\n\r\n%b" % (STATUS_LINE[status], *rest)
        )
        cycle.on_response()
        return True


def whole_answer(problem: Problem, *lines: str) -> bytes:
    """Return the bytes of a problem document with its head, to which `lines` are added."""
    body = problem.body()
    head = [f"HTTP/1.1 {problem.status} {TITLES[problem.status]}"]
    head += [f"content-type: {MEDIA_TYPE}", f"content-length: {len(body)}"]
    head += [f"{name}: {value}" for name, value in problem.headers().items()]
    return "\r\n".join([*head, *lines]).encode() + END_OF_HEAD + body
