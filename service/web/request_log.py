"""The log line of each request, where it is wanted: as other lines are, at a tenth of the cost."""

import asyncio
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_json


class RequestLog:
    """Writes lines to stderr, those of one turn of the event loop at once.

    Parameters
    ----------
    clock : callable
        Seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lines: list[bytes] = []
        self._second, self._text = -1, ""

    def add(self, said: dict[str, Any]) -> None:
        """Write what is said of a request, with the present time, soon.

        Called in the event loop.
        """
        now = self._clock()
        second = int(now)
        if second != self._second:
            self._second = second
            self._text = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
        said["timestamp"] = f"{self._text}.{int((now - second) * 1e6):06d}Z"
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._write)
        self._lines.append(to_json(said))

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        sys.stderr.write(b"\n".join(lines).decode() + "\n")
