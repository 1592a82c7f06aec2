"""Delete the rows of old rounds a few at a time, the same for both databases."""

from collections.abc import Callable
from typing import Any

from service.records import SessionKey
from service.storage.ports import DropCursor, Dropped
from service.storage.reader import FOR_EVER

PAGE, MAX_PAGES = 64, 16  # rows that are looked at together; such pages of one call
MAX_ROWS, MAX_BYTES = 256, 2**18  # deleted by one call: a commit of a few milliseconds
Read = Callable[..., list[Any]]  # runs a named statement with values, and returns its rows
Execute = Callable[..., Any]  # runs a named statement with values, and returns its cursor
Place = tuple[str, int]  # a trajectory and a round


def drop_some(
    read: Read,
    execute: Execute,
    key: SessionKey,
    dropped_to: int,
    n_kept: int,
    cursor: DropCursor | None,
) -> Dropped:
    """Delete the next rows of rounds up to position `dropped_to`; see `Transaction.drop`."""
    ranges: list[tuple[Place, Place]] = []
    n = size = 0
    place, following = cursor or ("", 0), cursor
    for _ in range(MAX_PAGES):
        rows = read("next_dropped", *key, place[0], place[1], n_kept, PAGE)
        is_open, kept_of = False, None
        for name, round, needed_to, n_bytes in rows:
            place = name, round
            if name == kept_of:
                continue
            if needed_to > dropped_to:
                is_open, kept_of = False, name
                continue
            if is_open:
                ranges[-1] = ranges[-1][0], place
            else:
                ranges.append((place, place))
                is_open = True
            n, size = n + 1, size + n_bytes
            if n == MAX_ROWS or size > MAX_BYTES:
                break
        if len(rows) < PAGE and place == (rows[-1][:2] if rows else place):
            following = None
            break
        if place[0] == kept_of:
            place = kept_of, FOR_EVER  # later rounds of this trajectory are needed, too
        following = place
        if n == MAX_ROWS or size > MAX_BYTES:
            break
    n_measurements = n_complete = 0
    for first, last in ranges:
        n_complete += int(read("dropped_complete", *key, *first, *last)[0][0])
        n_measurements += execute("drop_measurements", *key, first[0], *last).rowcount
        n_measurements += execute("drop_voids", *key, *first, *last).rowcount
        execute("drop_decisions", *key, *first, *last)
    return Dropped(following, n, n_measurements, n_complete)
