"""What is PostgreSQL's own: locks, round trips, lost connections. The rest is in the contract."""

import resource
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import RawCursor

from lhb_engine.history import FitWindow
from service.base.problems import Problem, Unavailable
from service.commands.decisions import Decide
from service.commands.limits import NO_LIMITS
from service.commands.rewards import ReceiveRewards
from service.commands.sessions import create_session
from service.fits.job import data_bytes
from service.rounds.reward import Reward
from service.session.records import SessionKey
from service.storage.ports import Changes, Contended, Keys, KnownRows
from service.storage.postgres.connection import translated
from service.storage.postgres.statements import SQL, Pipeline, PostgresReader, columns
from service.storage.postgres.store import N_READERS, PostgresStore, open_reader
from service.writer.unit_of_work import UnitOfWork
from tests.examples import examples
from tests.forked_process import FORKS
from tests.service.histories import read_history
from tests.service.service_harness import CONTEXTS, ServiceHarness

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(postgres_url)
    yield opened
    opened.close()


@pytest.fixture
def harness(store: PostgresStore, tmp_path: Path) -> ServiceHarness:
    return ServiceHarness(tmp_path, store)


@given(
    st.lists(
        st.tuples(TEXT, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)), min_size=1
    )
)
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_columns_come_back_as_rows(migrated: str, rows: list[tuple[str, int, float]]) -> None:
    rows = [("NULL", 0, -0.0), ("{a,\"b\\c'}", 1, 1e-320), ("", 2, 0.1), *rows]
    with psycopg.connect(migrated, cursor_factory=RawCursor) as connection:
        sql = "select * from unnest($1::text[], $2::bigint[], $3::float8[])"
        with patch.dict(SQL, {"given": sql}):
            exchange = Pipeline(connection).exchange([("given", columns(rows))])
            assert connection.wait(exchange) == [rows]


def test_a_batch_asks_for_nothing_one_by_one(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create(horizon=100)
    for trajectory in ("a", "b", "c"):
        harness.rounds(4, rewarded=False, trajectory=trajectory)
        harness.run(ReceiveRewards(harness.key, [Reward(1.0, trajectory, round=3)], harness.agents))
    commands: list[Any] = []
    for i, trajectory in enumerate(("a", "b", "c", "new")):
        late = [] if trajectory == "new" else [Reward(0.5, trajectory, round=2, reward_id="r")]
        more = {"event_id": f"e{i}", "digest": b"d"}
        commands.append(
            Decide(
                harness.key, harness.agents, NO_LIMITS, trajectory, CONTEXTS, rewards=late, **more
            )
        )
        if late:
            commands.append(
                ReceiveRewards(harness.key, [Reward(1.0, trajectory, round=3)], harness.agents)
            )
    asked: list[str] = []
    read = PostgresReader._all

    def counted(self: PostgresReader, name: str, *values: Any) -> list[Any]:
        asked.append(name)
        return read(self, name, *values)

    monkeypatch.setattr(PostgresReader, "_all", counted)
    monkeypatch.setattr(UnitOfWork, "_fetch", lambda _, keys: asked.append(repr(keys)))
    outcomes, _ = harness.commit.run_in_thread(commands)
    assert [error for _, error in outcomes] == [None] * 7
    repeated = [result.repeated for result, _ in outcomes if hasattr(result, "repeated")]
    assert repeated == [1, 1, 1]
    by_event = [("a", "e0", 0.25), ("b", "~4", 0.25), ("c", "~2", 0.5), ("a", "~5", 0.25)]
    commands = [
        ReceiveRewards(harness.key, [Reward(value, trajectory, event_id=event)], harness.agents)
        for trajectory, event, value in by_event
    ]
    decided, *outcomes = harness.commit.run_in_thread(
        [Decide(harness.key, harness.agents, NO_LIMITS, "b", CONTEXTS), *commands]
    )[0]
    assert decided[0].decision.round == 6
    errors = [error for _, error in outcomes]
    assert [result.repeated for result, error in outcomes if error is None] == [0, 0, 1]
    assert [error.field for error in errors if isinstance(error, Problem)] == ["event_id"]
    assert asked == []


def named(harness: ServiceHarness, name: str) -> SessionKey:
    request = {"name": name}
    harness.create(**request)
    return harness.key


def test_an_unannounced_row_is_not_waited_for(harness: ServiceHarness, postgres_url: str) -> None:
    """Waiting out of key order could close a circle; the batch runs again, announcing it."""
    key = named(harness, "one")
    with psycopg.connect(postgres_url) as other:
        other.execute("select 1 from sessions where id = %s for update", [key[1]])
        transaction = harness.store.begin()
        transaction.run(transaction.fetch(Keys(), KnownRows()))
        with pytest.raises(Contended) as contended:
            transaction.run(transaction.fetch(Keys(sessions={key}), KnownRows()))
        assert contended.value.session == key
        transaction.rollback()
        release = threading.Timer(0.5, other.rollback)
        asked = {**_request(), "name": "one"}
        began = time.monotonic()
        release.start()
        with pytest.raises(Exception, match="created with another body"):
            harness.run(create_session("", {**asked, "dim": 3}, False))
        assert time.monotonic() - began > 0.45  # it waited, once it could
        release.join()


def _request() -> dict[str, Any]:
    return {"algorithm": "ad_lasso", "dim": 2, "horizon": 4, "seed": 1}


def test_a_lost_connection_is_503_once_at_most_and_nothing_is_half_written(
    harness: ServiceHarness, store: PostgresStore, postgres_url: str
) -> None:
    harness.create()
    harness.rounds(2)
    transaction = store.begin()
    transaction.run(transaction.fetch(Keys(sessions={harness.key}), KnownRows()))
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'lhb writer' and datname = current_database()"
        )
    with pytest.raises(Unavailable, match="unknown"):
        transaction.run(transaction.commit(Changes()))
    transaction.rollback()
    assert harness.decide().round == 3
    np.testing.assert_equal(harness.session.n_rounds, 3)


def test_what_is_left_unread_disturbs_no_later_reader(
    harness: ServiceHarness, store: PostgresStore
) -> None:
    """A client hangs up in its export, and a thread reads on for a while."""
    harness.create()
    harness.rounds(30, rewarded=False)
    with store.reader() as reader:
        left = reader.window_rounds(harness.key, 1, 30, 0)
        next(left)
    with store.reader() as other:
        assert other.connection is reader.connection  # type: ignore[attr-defined]
        assert other.session(harness.key) is not None
        with pytest.raises((Problem, psycopg.Error)):
            list(left)
        assert other.session(harness.key) is not None
    reader.session(harness.key)  # in a transaction of its own
    with store.reader() as other:
        assert other.connection is not reader.connection  # type: ignore[attr-defined]


def test_readers_are_limited_and_come_back(store: PostgresStore) -> None:
    store.wait_for_reader_seconds = 0.05
    held = [store.reader() for _ in range(N_READERS)]
    for reader in held:
        reader.__enter__().check()
    with pytest.raises(Unavailable, match="too many concurrent reads"), store.reader():
        pass
    for reader in held:
        reader.__exit__(None, None, None)
    with store.reader() as reader:
        reader.check()


def test_two_processes_never_serve_a_session_from_an_old_cache(
    harness: ServiceHarness, postgres_url: str, tmp_path: Path
) -> None:
    harness.create()
    other_store = PostgresStore(postgres_url)
    other = ServiceHarness(tmp_path, other_store)
    other.key = harness.key
    for round in range(1, 9):
        mine = harness if round % 2 else other
        assert mine.decide().round == round
    assert harness.session.n_rounds == 8
    other_store.close()


def test_a_history_is_in_key_order_whatever_the_planner_does(
    harness: ServiceHarness, postgres_url: str
) -> None:
    """A fit adds up in this order: another one has other last bits."""
    harness.create(horizon=100)
    names = [f"t{i * 37 % 101}" for i in range(100)]
    for name in names:
        harness.decide(name)
    off = "".join(f"-cenable_{how}%3Doff%20" for how in ("sort", "indexscan", "bitmapscan"))
    window = FitWindow(1, 1, 100, 4, 100)
    with open_reader(f"{postgres_url}?options={off}") as reader:
        history = read_history(reader, harness.session, window)
    assert list(history.trajectories) == sorted(names)


def read_beyond_memory(url: str) -> str:
    """Read 64 MB where this process may take 16 more; return the name of what is raised."""
    with open_reader(url) as reader:
        limit = data_bytes() + 16 * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
        try:
            with translated():
                reader.connection.execute("select repeat('x', 64000000)")
        except Exception as error:
            return type(error).__name__
    return "nothing"


def test_an_answer_beyond_the_memory_of_a_process_is_no_error_of_the_database(
    postgres_url: str,
) -> None:
    """A fit that reads too much would be tried again, and would end the same way."""
    with ProcessPoolExecutor(1, FORKS) as processes:
        assert processes.submit(read_beyond_memory, postgres_url).result() == "MemoryError"
