"""A cache bounded by bytes, and what sessions count in it."""

from collections.abc import Iterator

import numpy as np
import pytest

from service.api.context_arrays import read_contexts
from service.base.byte_bounded import ByteBounded
from service.base.loop_slices import run_at_once
from service.session.names import Names, _parsed, names_of
from service.session.records import ROW_BYTES
from service.storage.sqlite.store import SqliteStore
from tests.service.service_harness import ServiceHarness

LABELS = [f"feature_{i}" for i in range(500)]


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache: ByteBounded[str, str] = ByteBounded(10)
    for key, n_bytes in (("a", 4), ("b", 4), ("c", 2)):
        cache.keep(key, key.upper(), n_bytes)
    cache.trim()
    assert (len(cache), cache.n_bytes) == (3, 10)
    assert cache.get("a") == "A"
    cache.keep("c", "again", 3)
    assert cache.n_bytes == 11
    cache.trim()
    assert ("b" in cache, cache.n_bytes) == (False, 7)
    cache.keep("large", "L", 1000)
    cache.trim()
    assert (len(cache), cache.n_bytes, cache.get("large")) == (1, 1000, "L")
    cache.remove("large")
    cache.remove("large")
    assert (len(cache), cache.n_bytes, cache.get("large")) == (0, 0, None)


@pytest.fixture
def named(harness: ServiceHarness) -> Iterator[ServiceHarness]:
    yield harness
    _parsed.clear()


def test_sessions_count_their_texts_and_lists(named: ServiceHarness) -> None:
    """On SQLite, where the writer's rows stay in memory, and grow there."""
    assert isinstance(named.store, SqliteStore)
    rows = named.store.sessions
    named.create(dim=1000, options={}, algorithm="uniform")
    before = rows.n_bytes
    assert before >= ROW_BYTES
    contexts = run_at_once(read_contexts([dict.fromkeys(LABELS, 1.0)]))
    named.decide(contexts=contexts)
    grown = Names(LABELS).n_bytes - Names().n_bytes
    assert rows.n_bytes == before + grown
    named.decide(contexts=contexts)
    horizon = 1000
    options = {"weights": [1.0 / horizon] * horizon}
    named.create(dim=2, horizon=horizon, options=options, algorithm="oracle_w")
    assert rows.n_bytes >= before + grown + ROW_BYTES + 32 * horizon
    rows.most = rows.n_bytes - before  # less than both
    named.decide(contexts=np.eye(2))
    assert len(rows) == 1


def test_parsed_names_hold_no_more_bytes_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parsed, "most", 100_000)
    try:
        texts = [Names([f"{label}_{i}" for label in LABELS[:100]]).text for i in range(20)]
        for text in texts:
            assert names_of(text).text == text
        assert 50_000 < _parsed.n_bytes <= 100_000
        assert names_of(texts[0]).text == texts[0]
        assert names_of(None).columns == ()
    finally:
        _parsed.clear()
