"""A server that dies between any two folds of a session's rows loses nothing of what it answered.

What follows from the rows is folded by transactions of their own: fits with their sums, slots of a
clock, the sums of lift, and the rows that go. One of two sessions, which take the same, lives
through a restart after each of these, with neither caches nor cursors.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from service.commands.drop_rounds import drop_rounds, give_up_rounds, plan
from service.fits.fit_answer import Fitted
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.rounds.slot_sums import keep_slots
from service.storage.transactions import Slices, Store
from service.transfer.replay import replay_session
from service.writer.agent_cache import Agents
from service.writer.group_commit import GroupCommit
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.lhb_engine.sized_agents import have_sizes
from tests.service.fits.kept_rounds import without_seconds
from tests.service.fits.retention_twins import Twins, small_limits  # noqa: F401
from tests.service.fits.slot_world import World, make_small
from tests.service.service_harness import ServiceHarness
from tests.service.test_lift import sum_up

pytestmark = pytest.mark.slow
HOLDOUT = {"share": 0.4, "policy": "uniform", "planned_rounds": 1000, "guard": False}
LEVELS = {"levels": True, "most_stale": 0.15}


def begin_anew(harness: ServiceHarness, reopen: Callable[[], Store]) -> None:  # noqa: F811
    """Let another server take the place of the one that died."""
    slices = harness.store.slices
    harness.store, harness.agents = reopen(), Agents()
    harness.store.slices = slices
    harness.commit = GroupCommit(
        harness.store,
        after_commit=lambda effects: None,
        on_rollback=harness.agents.forget,
        clock=lambda: harness.now,
    )


class Killed(Twins):
    """The last session's server dies after each of its folds."""

    reopen: Callable[[], Store]
    n_kills = 0

    def kill(self) -> None:
        """Begin anew from what is stored."""
        begin_anew(self.harness, self.reopen)
        self.n_kills += 1

    def fit(self) -> None:
        """Also between a fit and the transaction that records it: it is made again."""
        while self.session(0).fit_due is not None:
            found = []
            for key in self.keys:
                self.harness.key, is_killed = key, key == self.keys[-1]
                due = self.harness.session.fit_due
                assert due is not None
                for _ in range(1 + is_killed):
                    fitted = run_fit(self.url, *key, due, 0.0)
                    assert fitted is not None
                    assert fitted.estimate is not None, fitted.reason
                    found.append(({**fitted.estimate, "seconds": 0}, fitted.sums))
                    if is_killed:
                        self.kill()
                finish = FinishFit(key, due, fitted, self.harness.agents)
                assert self.harness.run(finish) != "failed"
                if is_killed:
                    self.kill()
            assert all(one == found[0] for one in found)

    def drop(self, i: int) -> bool:
        """Give rounds up, and drop their rows slice by slice, some of them by each server."""
        session = self.session(i)
        with self.harness.store.reader() as reader:
            found = plan(reader, session, self.harness.now, young=0.0)
        if found is None or not self.harness.run(give_up_rounds(session.key, found)):
            return False
        self.kill()
        n_slices = 0  # before the next kill: a pass begins anew, and looks at what stays first
        while self.session(i).swept_to < found.dropped_to:
            steps, done, n_slices = drop_rounds(session.key, found.dropped_to), None, n_slices + 1
            with suppress(StopIteration):
                for _ in range(n_slices):
                    done = self.harness.run(steps.send(done))
            self.kill()
        return True

    def lift(self, i: int) -> Any:
        """The sums of the comparison, each step by another server."""
        self.harness.key = self.keys[i]
        sum_up(self.harness)
        if i:
            self.kill()
        with self.harness.store.reader() as reader:
            row = reader.lift_sums(self.keys[i])
        assert row is not None
        return row[3:]


class KilledBySlot(World):
    """Its server dies between a fit and the transaction that keeps what it summed, and after it."""

    reopen: Callable[[], Store]
    is_compared = False

    def answer(self, due: int) -> Fitted:
        """Each part, and the fit after the parts, is made again by another server."""
        while True:
            one, again = self._fitted(due), self._fitted(due)
            assert without_seconds(one) == without_seconds(again)
            assert (one.sums, one.settled) == (again.sums, again.settled)
            if not again.is_part:
                return again
            assert again.settled is not None
            assert self.harness.run(keep_slots(self.harness.key, again.settled))
            self.n_parts += 1

    def _fitted(self, due: int) -> Fitted:
        fitted = run_fit(self.url, *self.harness.key, due, 0.0)
        assert fitted is not None
        begin_anew(self.harness, self.reopen)
        return fitted

    def finish(self, due: int, fitted: Fitted) -> None:
        super().finish(due, fitted)
        begin_anew(self.harness, self.reopen)


@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
def test_slots_of_a_clock(
    harness: ServiceHarness,
    database_url: str,
    reopen: Callable[[], Store],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_small(monkeypatch)
    have_sizes(monkeypatch, most_rows=1)  # of a transaction: fits are in parts
    lived, kept = [], []
    for kind in (World, KilledBySlot):
        harness.now = 1000.0
        world = kind(harness, database_url)
        world.is_compared = False
        if isinstance(world, KilledBySlot):
            world.reopen = reopen
        world.play(90)
        lived.append(
            [json.loads(one.estimate or "{}") | {"seconds": 0} for one in harness.estimates]
        )
        kept.append([row[2:] for row in world.kept()])
    assert lived[0] == lived[1]
    assert kept[0] == kept[1]
    assert world.n_parts > 0
    assert len(kept[0]) > 5


@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
def test_default_rewards_with_levels(
    harness: ServiceHarness,
    database_url: str,
    reopen: Callable[[], Store],  # noqa: F811
) -> None:
    given = {"default_reward": 0.25, "holdout": HOLDOUT, "options": LEVELS}
    twins = Killed(harness, database_url, {"keep_rounds": 100}, **given)
    twins.reopen = reopen
    harness.store.slices = Slices(rows=23, page=11, pages=3)
    n_drops = 0
    for _ in range(6):
        twins.play(60, ("", "a", "b"))
        assert twins.lift(0) == twins.lift(1)
        n_drops += twins.drop(1)
    assert n_drops >= 2
    assert twins.n_kills > 20
    session, (whole, left) = twins.session(1), (twins.rows(i) for i in range(2))
    assert len(left["decisions"]) == session.n_rounds - session.n_dropped_rounds
    assert session.n_dropped_rounds > 50
    for table, rows in whole.items():
        there = {row[2:] for row in left[table]}
        assert there <= {row[2:] for row in rows}
    after = [row for row in whole["decisions"] if row.position > session.dropped_to]
    assert {row[2:] for row in after} <= {row[2:] for row in left["decisions"]}
    for key in twins.keys:
        harness.key = key
        with harness.store.reader() as reader:
            replay = replay_session(reader, harness.session)
        assert replay.differences == []
        assert replay.decisions == harness.session.n_rounds - harness.session.n_dropped_rounds
    assert replay.estimates_dropped > 0
