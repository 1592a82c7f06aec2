"""Contexts of a range of rounds that are read as one text."""

from pathlib import Path

from service.storage.sqlite.store import SqliteStore
from tests.contracts.sample_rows import S1, commit, decision, session, trajectory


def test_wide_contexts_of_a_long_range_are_read_by_rows(tmp_path: Path) -> None:
    """One text of these would take 65 536 times a context: SQLite refuses texts of 1 GB."""
    wide = decision(1, "a")._replace(context=b"x" * 1080)
    store = SqliteStore(tmp_path / "lhb.db")
    commit(store, session(), trajectory("a"), wide)
    with store.reader() as reader:
        assert reader._one("joined_rounds", *S1, "a", 1, 60_000, 9)[0] == "1"
        assert reader._one("joined_rounds", *S1, "a", 1, 65_536, 9)[0] is None
        [columns] = reader.rounds_in(S1, [("a", 1, 65_536)], 9)
        assert [*columns[3]] == [wide.context]
    store.close()
