"""Delete the rows of old rounds a few at a time, the same for both databases."""

from collections.abc import Callable
from typing import Any

from service.session.records import SessionKey
from service.storage.ports import DropCursor, Dropped
from service.storage.reader import FOR_EVER

PAGE, MAX_PAGES = 128, 8  # rows that are looked at together; such pages of one call
MAX_RANGES = 32  # trajectories of one call: each takes four statements
MAX_ROWS, MAX_BYTES = 256, 2**18  # deleted by one call: a commit of a few milliseconds
Read = Callable[..., list[Any]]  # runs a named statement with values, and returns its rows
# runs named statements, each with its values, and returns the rows of each
ReadAll = Callable[[list[tuple[str, tuple[Any, ...]]]], list[list[Any]]]


def drop_some(
    read: Read,
    read_all: ReadAll,
    key: SessionKey,
    dropped_to: int,
    n_kept: int,
    cursor: DropCursor | None,
) -> Dropped:
    """Delete the next rows of rounds up to position `dropped_to`; see `Transaction.drop`."""
    ranges: dict[str, list[int]] = {}  # the first and the last round to go, by trajectory
    n = size = 0
    place, following = (cursor or ("", 0))[:2], cursor
    for _ in range(MAX_PAGES):
        rows = read("next_dropped", *key, *place, n_kept, PAGE)
        kept_of, is_full = None, False
        for name, round, needed_to, n_bytes in rows:
            is_full = n == MAX_ROWS or size > MAX_BYTES
            is_full = is_full or (len(ranges) == MAX_RANGES and name not in ranges)
            if is_full:
                break
            place = name, round
            if name == kept_of:
                continue
            if needed_to > dropped_to:
                kept_of = name
                continue
            ranges.setdefault(name, [round, round])[1] = round
            n, size = n + 1, size + n_bytes
        if len(rows) < PAGE and not is_full:
            following = None
            break
        if place[0] == kept_of:
            place = place[0], FOR_EVER  # later rounds of this trajectory are needed, too
        following = *place, 0
        if is_full:
            break
    statements: list[tuple[str, tuple[Any, ...]]] = []
    for name, (first, last) in ranges.items():
        low = cursor[2] if cursor and cursor[0] == name else 0
        statements += [
            ("dropped_complete", (*key, name, low, first, last)),
            ("drop_measurements", (*key, name, low, last)),
            ("drop_voids", (*key, name, first, last)),
            ("drop_decisions", (*key, name, first, last)),
            ("goes_on", (*key, name, low, last)),
        ]
    answers = read_all(statements)
    n_complete = sum(int(rows[0][0]) for rows in answers[0::5])
    n_measurements = sum(map(len, answers[1::5] + answers[2::5]))
    if following is not None and following[0] in ranges:
        name, last, _ = following
        if last == ranges[name][1]:
            [[low]] = answers[-1]
            following = name, last, last + 1 if low is None else low
    return Dropped(following, n, n_measurements, n_complete)
