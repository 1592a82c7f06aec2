"""Changes of a session's options, and which of them a decision or a fit had.

A session keeps the options that it had before each change. Decisions have those of their position,
fits those of the revision in their manifest, so both are repeated exactly.
"""

import json
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from service.session.records import SessionRow

MOST_CHANGES = 100  # of a session: each is kept in its row


class OptionChange(NamedTuple):
    """A change of options: how many rounds the session had, and its options until then."""

    after: int
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class OptionChanges:
    """All changes of a session's options, in order. Its revision is their number."""

    changes: tuple[OptionChange, ...] = ()

    @property
    def last(self) -> int:
        """After how many rounds the options changed last; 0: never."""
        return self.changes[-1].after if self.changes else 0

    def revision_of(self, position: int) -> int:
        """Return how many changes there were before the decision at a position."""
        return bisect_left(self.changes, position, key=lambda change: change.after)

    def with_one(self, after: int, options: dict[str, Any]) -> str:
        """Return these and one more as JSON text, as stored."""
        return json.dumps([*self.changes, OptionChange(after, options)])


@lru_cache(maxsize=256)
def changes_of(text: str | None) -> OptionChanges:
    """Return the stored changes of a session."""
    if text is None:
        return OptionChanges()
    return OptionChanges(tuple(OptionChange(*one) for one in json.loads(text)))


def at_revision(session: SessionRow, revision: int) -> SessionRow:
    """Return the session with the options that it had at a revision."""
    changes = changes_of(session.changes).changes
    return (
        replace(session, options=changes[revision].options) if revision < len(changes) else session
    )


def earlier_sessions(session: SessionRow) -> list[SessionRow]:
    """Return an imported session with the options that it had before each change.

    Raises
    ------
    ValueError
        The stored text is not one of changes in order.
    """
    last, given = 0, json.loads(session.changes or "[]")
    for after, options in given:
        if type(after) is not int or after < last or not isinstance(options, dict):
            raise ValueError("changes: each has a number of rounds, in order, and options")
        last = after
    if len(given) > MOST_CHANGES:
        raise ValueError(f"changes: options change at most {MOST_CHANGES} times")
    return [at_revision(session, revision) for revision in range(len(given))]
