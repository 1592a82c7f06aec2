"""The id of a request, its caller's or our own, and the trace that it belongs to."""

import re
from collections.abc import Mapping
from itertools import count
from secrets import token_hex

ID = re.compile(rb"[\x21-\x7e]{1,128}")
TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.*", re.ASCII)
MAX_TRACE = 256


class RequestIds:
    """Ids of the requests of one process."""

    def __init__(self) -> None:
        self._prefix = token_hex(6)
        self._numbers = count(1)

    def id_of(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the X-Request-Id of a request, or a new id if it has none that can be kept.

        At most 128 visible ASCII characters are kept.
        """
        given = headers.get(b"x-request-id")
        if given is not None and ID.fullmatch(given):
            return given.decode()
        return f"{self._prefix}-{next(self._numbers)}"


def trace_of(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the W3C traceparent of a request under that name; nothing if there is none."""
    value = headers.get(b"traceparent")
    if value is None or len(value) > MAX_TRACE or TRACE.fullmatch(value) is None:
        return {}
    return {"traceparent": value.decode()}
