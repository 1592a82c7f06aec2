"""Databases from before schema 0006, whose manifests named a number for every trajectory."""

import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, text

from service.rounds.history import read_history
from service.session.due_fits import DueFit
from service.session.records import SessionRow
from service.storage.database_url import open_store
from service.storage.migrate import _connected, migrate
from service.storage.reader import Reader
from service.storage.watermarks import arrival_order
from service.transfer.file_format import RETENTION
from service.transfer.replay import replay_session
from tests.service.service_harness import ServiceHarness


def manifests(reader: Reader, session: SessionRow) -> list[DueFit]:
    """Those of all fits, done and pending."""
    found = [json.loads(e.manifest) for e in reader.estimates(session.key, 0, 99)]
    pending = [session.schedule.current, *session.schedule.waiting]
    return [DueFit.from_json(m) for m in found] + [due for due in pending if due is not None]


def rows_read(reader: Reader, session: SessionRow) -> list[Any]:
    """What each fit reads."""
    found = []
    for due in manifests(reader, session):
        parts = read_history(reader, session, due.window, due).trajectories.items()
        rows = [(k, p.measurements.first.tolist(), p.measurements.value.tolist()) for k, p in parts]
        found.append(rows)
    return found


def as_0005(url: str) -> None:
    """Bring a database back to schema 0005, with the manifests of that time."""
    with _connected(url) as connection:
        schedule = json.loads(
            connection.execute(text("select schedule from sessions")).scalar_one()
        )
        for due in (schedule["current"], *schedule["waiting"]):
            if due is not None:
                make_old(connection, due)
        save = text("update sessions set schedule = :schedule")
        connection.execute(save, {"schedule": json.dumps(schedule)})
        for number, manifest in connection.execute(
            text("select number, manifest from estimates")
        ).all():
            due = json.loads(manifest)
            make_old(connection, due)
            save = text("update estimates set manifest = :manifest where number = :number")
            connection.execute(save, {"manifest": json.dumps(due), "number": number})
        sqlite = connection.dialect.name == "sqlite"
        counters = "session_counts" if sqlite else "sessions"
        for statement in (
            "drop index corrections",
            "alter table measurements drop column replaces",
            "drop index decisions_by_position",
            "drop index measurements_by_position",
            "alter table measurements drop column position",
            f"alter table {counters} drop column n_measurements",
            "drop table kept_sums",
            "drop table slot_sums",
            "drop table voids",
            "drop table audit",
            *(
                f"alter table api_keys drop column {name}"
                for name in ("role", "expires_at", "last_used_at")
            ),
            "alter table sessions drop column names",
            "drop table lift_sums",
            "drop table lift_units",
            "drop index sessions_with_trial",
            "alter table sessions drop column trial",
            "alter table sessions drop column keep_contexts",
            "alter table decisions drop column contexts",
            "alter table sessions drop column changes",
            *(
                f"alter table sessions drop column {name}"
                for name in ("n_erased_rounds", "n_erased_measurements", "erasing")
            ),
            "alter table sessions drop column clock",
            "alter table decisions drop column covariates",
            "alter table measurements drop column covariates",
            "drop index sessions_with_retention",
            *(f"alter table sessions drop column {name}" for name in RETENTION),
            "alter table decisions drop column played_by",
            "alter table decisions drop column agent_arm",
            "update alembic_version set version_num = '0005'",
        ):
            connection.execute(text(statement))


def make_old(connection: Connection, due: dict[str, Any]) -> None:
    measured = text("select trajectory from measurements where position <= :n")
    names = connection.execute(measured, {"n": due["measured"]}).scalars()
    due["measured"] = dict(Counter(names))
    closed = text(
        "select trajectory, max(round) - 1 from decisions"
        " where at <= :at and position <= :n group by trajectory"
    )
    rows = connection.execute(closed, {"at": due.pop("closed_at"), "n": due.pop("decided")})
    due["closed"] = {name: n for name, n in rows.all() if n > 0}


@pytest.mark.parametrize("mode", [{}, {"default_reward": 0.5}, {"reward_mode": "sum"}])
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_sessions_of_schema_0005_go_on(
    database: str, mode: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'lhb.db'}"
    if database == "postgres":
        url = request.getfixturevalue("empty_postgres")
        migrate(url)
    with closing(ServiceHarness(tmp_path, open_store(url))) as harness:
        harness.create(reward_wait_seconds=3.0, options={"L": 1}, **mode)
        rng = np.random.default_rng(3)
        given = set()
        for round in range(1, 31):
            harness.now += round % 2  # half of all rewards share their time with others
            for name in ("", "b", "a"):
                harness.decide(name)
                late = max(1, round - int(rng.integers(0, 3)))
                if (name, late) not in given:
                    given.add((name, late))
                    harness.reward(float(round), name, round=late, reward_id=f"{round}")
            if round in (8, 16):
                assert harness.finish(harness.session.fit_due or 0) == "ok"
        session = harness.session
        assert session.fit_due is not None
        with harness.store.reader() as reader:
            before = rows_read(reader, session)
            watermarks = [(due.window, due.measured) for due in manifests(reader, session)]
    assert len(before) >= 3
    as_0005(url)
    assert migrate(url)[0] == "0005"
    harness.store = open_store(url)
    harness = ServiceHarness(tmp_path, harness.store)
    harness.key = session.key
    with closing(harness):
        with harness.store.reader() as reader:
            assert rows_read(reader, harness.session) == before
            found = [(d.window, d.measured) for d in manifests(reader, harness.session)]
            assert found == watermarks
        assert harness.session.n_measurements == session.n_measurements
        harness.finish(session.fit_due)
        n = harness.session.n_measurements
        harness.now += 1.0
        harness.decide("c")
        harness.reward(2.0, "c", round=1, reward_id="new")
        assert harness.session.n_measurements == n + 1
        with harness.store.reader() as reader:
            [last] = reader.measurement_log((*harness.key, "c"))
            assert last.position == n + 1
            differences = replay_session(reader, harness.session).differences
            assert [d for d in differences if not d.startswith("estimate")] == []


def test_measurements_of_one_time_are_ordered_by_the_manifests_that_hold_them() -> None:
    times = {"a": [1.0, 1.0, 2.0], "b": [1.0, 1.0]}
    order = arrival_order(times, [{"a": 2, "b": 2}, {"b": 1}])
    assert {name: found.tolist() for name, found in order.items()} == {"a": [2, 3, 5], "b": [1, 4]}
    assert arrival_order({}, []) == {}
