"""The log line of each request, where it is wanted: as other lines are, at a tenth of the cost.

The line has the request's id, its caller's or our own, and the trace that the request belongs to.
"""

import asyncio
import re
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import count
from json import dumps
from json.encoder import encode_basestring_ascii as quoted
from secrets import token_hex

from service.base.logs import shown_path

MOST = 4096  # kept beginnings of lines; then they are made anew
LONGEST = 1024  # characters of a path and a beginning that are kept
# what many requests have in common: method, path, tenant, key, client; None: it is not known
Asked = tuple[str, str, str | None, str | None, str | None]
NAMES = ("method", "path", "tenant", "key", "client")
ID = re.compile(rb"[\x21-\x7e]{1,128}")
TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}[\x20-\x7e]*")
MAX_TRACE = 256


class RequestLog:
    """Writes lines to stderr, those of one turn of the event loop at once."""

    def __init__(self, clock: Callable[[], float] = time.time, most: int = MOST) -> None:
        self._clock, self._most = clock, most
        self._lines: list[str] = []
        self._begins: dict[Asked, str] = {}
        self._second, self._text = -1, ""

    def add(
        self, request: Asked, request_id: str, trace: Mapping[str, str], status: int, seconds: float
    ) -> None:
        """Write the line of a request, with the present time, soon.

        Called in the event loop. `trace` says to which trace it belongs, like traceparent.
        """
        begin = self._begins.get(request) or self._begin(request)
        now = self._clock()
        second = int(now)
        if second != self._second:
            self._second = second
            self._text = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
        fraction = str(1_000_000 + int((now - second) * 1e6))[1:]  # its zeros before it
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._write)
        more = f", {dumps(trace)[1:-1]}" if trace else ""
        self._lines.append(
            f'{begin}{status}, "ms": {seconds * 1000:.3f}, "request_id": {quoted(request_id)}{more}'
            f', "timestamp": "{self._text}.{fraction}Z"}}\n'
        )

    def _begin(self, request: Asked) -> str:
        """Return the line up to the status, and keep it if it is short."""
        members = {"event": "request", "level": "info", **dict(zip(NAMES, request, strict=True))}
        members["path"] = shown_path(request[1])
        line = f'{dumps(members)[:-1]}, "status": '
        if len(self._begins) >= self._most:
            self._begins.clear()
        if len(request[1]) + len(line) <= LONGEST:
            self._begins[request] = line
        return line

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        sys.stderr.write("".join(lines))


class RequestIds:
    """Ids of the requests of one process."""

    def __init__(self) -> None:
        self._prefix = token_hex(6)
        self._numbers = count(1)

    def id_of(self, headers: Mapping[bytes, bytes]) -> str:
        """Return a request's X-Request-Id of up to 128 visible ASCII characters, or a new id."""
        header = headers.get(b"x-request-id")
        if header is not None and ID.fullmatch(header):
            return header.decode()
        return f"{self._prefix}-{next(self._numbers)}"


def trace_of(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the W3C traceparent of a request under that name; nothing if there is none."""
    value = headers.get(b"traceparent")
    if value is None or len(value) > MAX_TRACE or TRACE.fullmatch(value) is None:
        return {}
    return {"traceparent": value.decode()}
