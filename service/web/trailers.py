"""What comes after a body: it never becomes a header."""

from typing import Any


class Trailers:
    """Replaces the list of headers once a head is complete, and refuses trailers."""

    def append(self, header: tuple[bytes, bytes]) -> None:
        """Refuse a trailer: the parser reports it as a further header."""
        raise ValueError(f"{header[0]!r} is a trailer")


TRAILERS: Any = Trailers()
