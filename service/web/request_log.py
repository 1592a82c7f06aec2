"""The log line of each request, where it is wanted: as other lines are, at a tenth of the cost."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from json import dumps
from json.encoder import encode_basestring_ascii as quoted

from service.base.logs import shown_path

MOST = 4096  # kept beginnings of lines; then they are made anew
LONGEST = 1024  # characters of a path and a beginning that are kept
# what many requests have in common: method, path, tenant, key, client; None: it is not known
Asked = tuple[str, str, str | None, str | None, str | None]
NAMES = ("method", "path", "tenant", "key", "client")


class RequestLog:
    """Writes lines to stderr, those of one turn of the event loop at once.

    Parameters
    ----------
    clock : callable
        Seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lines: list[str] = []
        self._begins: dict[Asked, str] = {}
        self._second, self._text = -1, ""

    def add(
        self, asked: Asked, request_id: str, trace: Mapping[str, str], status: int, seconds: float
    ) -> None:
        """Write the line of a request, with the present time, soon.

        Called in the event loop.

        Parameters
        ----------
        asked : Asked
        request_id : str
        trace : mapping
            What says to which trace it belongs, like traceparent.
        status : int
            Of the answer.
        seconds : float
            That it took.
        """
        begin = self._begins.get(asked) or self._begin(asked)
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

    def _begin(self, asked: Asked) -> str:
        """Return the line up to the status, and keep it if it is short."""
        said = {"event": "request", "level": "info", **dict(zip(NAMES, asked, strict=True))}
        said["path"] = shown_path(asked[1])
        found = f'{dumps(said)[:-1]}, "status": '
        if len(self._begins) >= MOST:
            self._begins.clear()
        if len(asked[1]) + len(found) <= LONGEST:
            self._begins[asked] = found
        return found

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        sys.stderr.write("".join(lines))
