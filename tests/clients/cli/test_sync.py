"""`lhb sync`: what queries give counts once, and a changed value corrects."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clients.cli.main import app
from lhb import Client

duckdb = pytest.importorskip("duckdb")
CLOCK = {"slot_seconds": 3600, "start": "2026-01-01T00:00:00Z", "late_slots": 1000}
DECISIONS = 'select "at", price, topic from decisions where "at" >= $since'
REWARDS = """select hour as "from", hour + interval '1 hour' as "to", sum(paid) as value,
max(rain) as rain from paid where hour >= $since group by hour"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(
            "create table decisions as select timestamp '2026-01-01' + to_minutes(i * 20) as "
            '"at", i::decimal(4, 1) as price, '
            "case when i % 2 = 0 then 'sport' else 'news' end as topic from range(30) t(i)"
        )
        connection.execute(
            "create table paid as select timestamp '2026-01-01' + to_hours(i // 2) as hour, "
            "i + 0.5 as paid, i % 3 as rain from range(20) t(i)"
        )
    return path


def sync(url: str, session: str, source: object, state: Path, *more: str) -> dict[str, Any]:
    asked = ["sync", session, str(source), "--state", str(state), "--url", url, "--json", *more]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code in (0, 1), done.output
    assert done.stdout, (done.stderr, done.exception)
    answer: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == (answer["refused"] > 0)
    return answer


def totals(url: str, session: str) -> list[float]:
    with Client(url) as client:
        rounds = client.session(session).series(rounds=1000, bins=1000)["items"]
        return [one["reward"] for one in rounds if one["reward"] is not None]


def test_rows_count_once_and_changes_correct(url: str, database: Path, tmp_path: Path) -> None:
    with Client(url) as client:
        session = client.create_session(
            dim=3, horizon=5, clock=CLOCK, features=["price"], options={"covariates": ["rain"]}
        )
    both = ("--decisions", DECISIONS, "--rewards", REWARDS, "--covariate", "rain")
    state = tmp_path / "state"
    first = sync(url, session.id, database, state, *both)
    assert (first["decisions"], first["rewards"], first["refused"]) == (30, 10, 0), first
    again = sync(url, session.id, database, state, *both)
    assert (again["decisions"], again["rewards"]) == (0, 0)
    lost = sync(url, session.id, database, tmp_path / "another", *both)
    assert (lost["rewards"], lost["refused"]) == (0, 0), lost
    with Client(url) as client:
        info = client.session(session.id).read()
        assert info["features"] == ["price", "topic=sport", "topic=news"]
    before = totals(url, session.id)
    assert before == [4.0 * i + 2.0 for i in range(10)]
    for paid, state_file in ((100.0, state), (8.5, state), (50.0, tmp_path / "third")):
        with duckdb.connect(database) as connection:
            hour = "timestamp '2026-01-01 04:00:00'"
            connection.execute(f"update paid set paid = {paid} where hour = {hour}")
        changed = sync(url, session.id, database, state_file, *both)
        assert (changed["rewards"], changed["refused"]) == (1, 0), changed
        assert totals(url, session.id)[4] == 2 * paid


def test_only_what_is_after_the_watermark_is_read(url: str, database: Path, tmp_path: Path) -> None:
    with Client(url) as client:
        session = client.create_session(dim=2, horizon=5, clock=CLOCK)
    asked = ("--rewards", REWARDS, "--look-back", "0.125")
    sync(url, session.id, database, tmp_path / "state", *asked)
    with duckdb.connect(database) as connection:
        connection.execute("update paid set paid = paid + 1")
    changed = sync(url, session.id, database, tmp_path / "state", *asked)
    assert changed["rewards"] == 3  # those of the last three hours


def test_a_refused_row_is_named_and_read_again(url: str, database: Path, tmp_path: Path) -> None:
    with Client(url) as client:
        session = client.create_session(dim=2, horizon=5, clock=CLOCK)
    hours = "(values (timestamp '2025-12-31'), (timestamp '2026-01-01')) t(hour)"
    wrong = f'select hour as "from", hour + interval 1 hour as "to", 2.0 as value from {hours}'
    asked = ("--rewards", wrong)
    found = [sync(url, session.id, database, tmp_path / "state", *asked) for _ in range(2)]
    assert [one["rewards"] for one in found] == [1, 0], found
    assert [one["refused"] for one in found] == [1, 1]
    assert "before the session's first slot" in found[0]["problems"][0]


def test_ids_may_be_numbers(url: str, tmp_path: Path) -> None:
    with Client(url) as client:
        session = client.create_session(dim=1, horizon=5)
        decisions = "select i as event_id, 7 as trajectory, 1.0 as x from range(3) t(i)"
        rewards = "select i as event_id, 7 as trajectory, i + 0.5 as value from range(3) t(i)"
        asked = ("--decisions", decisions, "--rewards", rewards)
        found = [sync(url, session.id, ":memory:", tmp_path / "state", *asked) for _ in range(2)]
        assert [one["decisions"] + one["rewards"] for one in found] == [6, 0], found
        rounds = {one["event_id"]: one["reward"] for one in session.rounds(trajectory="7")}
        assert rounds == {"0": 0.5, "1": 1.5, "2": 2.5}


def test_totals_wait_until_their_slots_have_all_decisions(url: str, tmp_path: Path) -> None:
    """A total ends its slots: a decision that was refused could not be sent any more."""
    clock = {**CLOCK, "late_slots": 0}
    with Client(url) as client:
        session = client.create_session(dim=1, horizon=5, clock=clock)
    day = "timestamp '2026-01-01'"
    totals = f'select {day} as "from", {day} + interval 1 hour as "to", 2.0 as value'
    found = []
    for x in ("'text'", "1.0"):
        decisions = f'select i as event_id, {day} as "at", {x} as x, 1 as y from range(2) t(i)'
        decisions = decisions.replace(", 1 as y", "" if x == "1.0" else ", 1 as y")
        asked = ("--decisions", decisions, "--rewards", totals)
        found.append(sync(url, session.id, ":memory:", tmp_path / "state", *asked))
    assert [one.get("rewards") for one in found] == [None, 1], found
    assert [(one["decisions"], one["refused"]) for one in found] == [(0, 2), (2, 0)]


def test_rows_of_postgresql(url: str, postgres_url: str, tmp_path: Path) -> None:
    with Client(url) as client:
        session = client.create_session(dim=1, horizon=5, clock=CLOCK)
    paid = "select timestamp '2026-01-01' + i * interval '1 hour' as hour, 1.5 as paid"
    paid += " from generate_series(0, 4) t(i)"
    query = REWARDS.replace("from paid", f"from ({paid}) p").replace("max(rain)", "0")
    asked = ("--rewards", query)
    found = [sync(url, session.id, postgres_url, tmp_path / "state", *asked) for _ in range(2)]
    assert [(one["rewards"], one["refused"]) for one in found] == [(5, 0), (0, 0)], found
    assert totals(url, session.id) == [1.5] * 5


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_thirty_thousand_rows_twice_change_nothing(url: str, tmp_path: Path) -> None:
    file = f"'{tmp_path}/paid.parquet'"
    with duckdb.connect() as connection:
        connection.execute(
            "copy (select 'visit ' || i % 1000 as event_id, 'payment ' || i as reward_id, "
            f"random() as value from range(30000) t(i)) to {file}"
        )
    with Client(url) as client:
        session = client.create_session(algorithm="uniform", dim=1, horizon=5, reward_mode="sum")
        shown = f"select distinct event_id, 1.0 as price from {file}"
        asked = ("--decisions", shown, "--rewards", f"select * from {file}")
        first = sync(url, session.id, ":memory:", tmp_path / "state", *asked)
        assert (first["decisions"], first["rewards"], first["refused"]) == (1000, 30_000, 0)
        before = session.read()
        for state in ("state", "another"):
            again = sync(url, session.id, ":memory:", tmp_path / state, *asked)
            assert (again["rewards"], again["refused"]) == (0, 0)
        assert session.read() == before
