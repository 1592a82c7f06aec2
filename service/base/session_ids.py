"""Ids of sessions, which no name looks like."""

import re
import secrets


def new_id(now: float, mark: str | None = None) -> str:
    """Make an id that sorts by time of creation; it ends in 12 random hex digits, or in `mark`."""
    return f"{int(now * 1000):011x}{mark or secrets.token_hex(6)}"


ID = re.compile("[0-9a-f]{23}")  # what `new_id` makes


def has_form_of_id(text: str) -> bool:
    """Return whether a text has the form of a session's id; no new name has it."""
    return ID.fullmatch(text) is not None
