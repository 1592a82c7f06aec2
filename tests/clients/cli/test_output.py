"""What commands print for people."""

import pytest

from clients.cli.output import counted


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 sessions"), (1, "1 session"), (2, "2 sessions")]
)
def test_one_of_a_thing_has_no_s(number: int, words: str) -> None:
    assert counted(number, "session") == words
