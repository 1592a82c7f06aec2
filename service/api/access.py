"""What a request may do: the tenant and the role of its API key."""

from math import inf
from typing import NamedTuple

ROLES = ("reader", "writer", "admin")  # each may what those before it may
NO_KEY, READER, WRITER, ADMIN = range(-1, len(ROLES))
# the least role of each route, by method and path template; `Routes.serve` fills it
NEEDED: dict[tuple[str, str], int] = {}


class Access(NamedTuple):
    """What a request may do, by its key."""

    tenant: str
    rank: int  # place of the key's role in ROLES
    key_id: str | None
    expires_at: float


EVERYBODY = Access("", ADMIN, None, inf)  # while the database has no key
STRANGER = Access("", NO_KEY, None, inf)  # without a valid key, on an open path
