"""What comes late in a session that drops rows of rounds that time closes."""

from typing import Any

import numpy as np
import pytest

from service.commands.decisions import void_decision
from service.commands.drop_rounds import give_up_rounds, plan
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import change_session
from service.fits.job import run_fit
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.examples import on_one_database
from tests.service.fits.retention_twins import (  # noqa: F401
    DIM,
    Twins,
    refused,
    small_limits,
)
from tests.service.service_harness import ServiceHarness

pytestmark = pytest.mark.slow
SUM, DEFAULT = {"reward_mode": "sum"}, {"default_reward": 0.25}
BOTH: dict[str, Any] = {**SUM, **DEFAULT}
LATEST = 64  # of these tests


@pytest.mark.parametrize(
    ("settings", "database_url"),
    [(SUM, "sqlite"), (DEFAULT, "sqlite"), (BOTH, "postgres")],
    ids=["sum", "default", "both on PostgreSQL"],
    indirect=["database_url"],
)
def test_what_sums_have_stays_as_it_is(
    harness: ServiceHarness, settings: dict[str, Any], database_url: str
) -> None:
    """Values for settled rounds are refused as those of dropped ones are; later ones are taken."""
    twins = Twins(harness, database_url, {"keep_days": 1 / 24}, **settings)
    twins.play(150, ("", "a"))
    harness.now += 3600.0
    twins.play(150, ("", "a"))
    assert twins.drop(1)
    twins.play(60, ("", "a"))
    session, n = twins.session(1), 0
    assert 0 < session.dropped_to <= 150
    closing = twins.adds_up
    for row in twins.rows(1)["decisions"]:
        key = (*session.key, row.trajectory)
        with harness.store.reader() as reader:
            following = reader.decision_by_round(key, row.round + 1)
            known = reader.measurement_over(key, row.round, row.round)
        if known is not None and not closing:
            continue
        at = following if closing else row
        when = {"round": row.round, "reward_id": f"late-{row.position}"}
        given_up = row.position <= session.dropped_to
        if given_up or (at is not None and at.position <= session.n_rounds - LATEST):
            told = refused("round_dropped", harness.reward, 0.5, row.trajectory, **when)
            assert told.field == "round"
            assert given_up or "is closed" in told.detail
            n += not given_up
    assert n > 5
    latest = sorted(twins.rows(0)["decisions"], key=lambda row: row.position)[-LATEST:]
    with harness.store.reader() as reader:
        key = twins.keys[0]
        late = next(
            row
            for row in latest
            if reader.measurement_over((*key, row.trajectory), row.round, row.round) is None
        )
    for harness.key in twins.keys:
        harness.reward(0.5, late.trajectory, round=late.round, reward_id="late")
        harness.run(ask_fit(harness.key, harness.agents))
    twins.fit()
    harness.key = twins.keys[1]
    void = void_decision(harness.key, "", f"~{len(twins.chosen[''])}", harness.agents)
    refused("no_corrections", harness.run, void)
    longer = change_session(harness.key, {"reward_wait_seconds": 31.0})
    assert refused("bad_option", harness.run, longer).field == "reward_wait_seconds"
    harness.run(change_session(harness.key, {"reward_wait_seconds": 29.0}))
    harness.reward(0.5, round=harness.decide(contexts=np.eye(DIM)).round, reward_id="next")
    harness.run(ask_fit(harness.key, harness.agents))
    twins.fit_one(1)


@on_one_database
def test_a_plan_is_late_where_a_row_of_sums_changed(
    harness: ServiceHarness, database_url: str
) -> None:
    """By a value, a void, a longer wait, or a trajectory that comes back; a fit then reads rows."""
    twins = Twins(harness, database_url, *[{"keep_rounds": 100}] * 4, **BOTH)
    twins.play(20, ("", "gone"))
    twins.play(280, ("", "a"))
    plans = []
    for i in range(1, 5):
        with harness.store.reader() as reader:
            found = plan(reader, twins.session(i), harness.now, young=0.0)
        assert found is not None
        plans.append(found)
    missing = _missing(twins)
    harness.key = twins.keys[1]
    harness.reward(0.5, "", round=missing, reward_id="late")
    harness.key = twins.keys[2]
    harness.run(void_decision(harness.key, "", "~9", harness.agents))
    harness.run(change_session(twins.keys[3], {"reward_wait_seconds": 500.0}))
    harness.key = twins.keys[4]
    harness.decide("gone", contexts=np.eye(DIM))
    for key, found in zip(twins.keys[1:], plans, strict=True):
        assert not harness.run(give_up_rounds(key, found)), twins.keys.index(key)
        harness.key = key
        harness.reward(
            0.5, "a", round=harness.decide("a", contexts=np.eye(DIM)).round, reward_id="n"
        )
        harness.run(ask_fit(key, harness.agents))
        answer = run_fit(database_url, *key, harness.session.fit_due or 0, 0.0)
        assert answer is not None
        assert answer.estimate is not None


@on_one_database
def test_trajectories_of_one_round_hold_no_fit_up(
    harness: ServiceHarness, database_url: str
) -> None:
    """More of them come within the wait than are the latest; their values are taken until then."""
    twins = Twins(harness, database_url, {"keep_rounds": 100}, **BOTH)
    twins.play(300, ("", "a"))
    assert twins.drop(1)
    settled = twins.kept(1).n_settled
    for n in range(3):
        for i in range(100):
            name = f"u{n}-{i}"
            contexts = twins.rng.uniform(-1, 1, (4, DIM))
            round = harness.decide(name, contexts=contexts).round
            if i % 99:
                harness.reward(float(contexts[0, 0]), name, round=round, reward_id="r")
        harness.run(ask_fit(harness.key, harness.agents))
        twins.fit_one(1)
    late = {"round": 1, "reward_id": "late"}
    harness.reward(0.5, "u0-0", **late)
    harness.run(ask_fit(harness.key, harness.agents))
    twins.fit_one(1)
    assert twins.kept(1).n_settled < settled + 96
    for i in range(20):
        harness.decide(f"u2-{i}", contexts=np.eye(DIM))
    harness.now += 31.0
    if twins.adds_up:  # nothing has closed the round yet
        harness.reward(0.5, "u1-0", **late)
    else:
        refused("round_dropped", harness.reward, 0.5, "u1-0", **late)
    harness.reward(0.5, "u2-99", **late)
    harness.run(ask_fit(harness.key, harness.agents))
    twins.fit_one(1)
    assert twins.kept(1).n_settled >= settled + 96


def _missing(twins: Twins) -> int:
    """An early round of the default trajectory without a value."""
    key, n = (*twins.keys[1], ""), len(twins.chosen[""])
    with twins.harness.store.reader() as reader:
        covered = {
            round
            for row in reader.measurement_log(key)
            for round in range(row.first_round, row.last_round + 1)
        }
    return next(round for round in range(1, n) if round not in covered)
