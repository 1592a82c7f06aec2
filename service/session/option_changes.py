"""Changes of a session's options, and which of them a decision or a fit had.

A session keeps the options that it had before each change. Decisions have those of their position,
fits those of the revision in their manifest, so both are repeated exactly.
"""

import json
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

MOST_CHANGES = 100  # of a session: each is kept in its row


class OptionChange(NamedTuple):
    """A change of options: how many rounds the session had, and its options until then."""

    after: int
    options: dict[str, Any]


@dataclass(frozen=True)
class OptionChanges:
    """All changes of a session's options, in order."""

    changes: tuple[OptionChange, ...] = ()

    @property
    def last(self) -> int:
        """After how many rounds the options changed last; 0: never."""
        return self.changes[-1].after if self.changes else 0

    def revision_of(self, position: int) -> int:
        """Return how many changes there were before the decision at a position."""
        return bisect_left(self.changes, position, key=lambda change: change.after)

    def with_one(self, after: int, options: dict[str, Any]) -> "OptionChanges":
        """Return these and one more."""
        return OptionChanges((*self.changes, OptionChange(after, options)))

    @cached_property
    def text(self) -> str | None:
        """The stored JSON text; None without any."""
        return json.dumps(self.changes) if self.changes else None


UNCHANGED = OptionChanges()


@lru_cache(maxsize=256)
def changes_of(text: str | None) -> OptionChanges:
    """Return the changes of a session's options from their stored text."""
    if text is None:
        return UNCHANGED
    return OptionChanges(tuple(OptionChange(*one) for one in json.loads(text)))
