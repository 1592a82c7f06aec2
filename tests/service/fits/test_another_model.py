"""Options that mean another model change on a running session: all rounds are fitted anew."""

from pathlib import Path
from typing import Any

import pytest

from lhb_engine.agents.fit_cost import FitCost
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import change_session
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.transfer.copy_session import copied_session, copy_session
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.examples import repeats
from tests.service.fits.kept_rounds import DIM, World, low_limits, reopen, store  # noqa: F401
from tests.service.service_harness import ServiceHarness

SEASON = {"trend": True, "seasonality": [{"period": 12}]}
CASES = [
    ("sqlite", {"levels": True, **SEASON}),
    *repeats(("sqlite", {"levels": True, "own": True, **SEASON}), ("postgres", {"own": True})),
]


def lived(harness: ServiceHarness, url: str, **options: Any) -> World:
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30, "options": options}
    harness.create(algorithm="anytime", **made)
    world = World(harness, ("", "a", "b"), url)
    world.play(140)
    return world


def change(harness: ServiceHarness, **options: Any) -> None:
    harness.run(change_session(harness.key, {"options": options}))


def in_use(harness: ServiceHarness) -> Any:
    """The values of the estimate in use, but for what says which fit it was."""
    with harness.store.reader() as reader:
        record = reader.installed(harness.session)
    assert record is not None
    found = record.values
    return [found[name] for name in ("theta", "lag_weights", "intercept", "effects", "own")]


def differences(harness: ServiceHarness) -> list[str]:
    with harness.store.reader() as reader:
        return replay_session(reader, harness.session).differences


@pytest.mark.parametrize(("database_url", "options"), CASES, indirect=["database_url"])
def test_it_decides_as_before_until_a_fit_of_all_rounds_is_what_a_copys_is(
    harness: ServiceHarness, options: dict[str, Any], database_url: str, tmp_path: Path
) -> None:
    world = lived(harness, database_url)
    source, theta = harness.session, in_use(harness)
    large = FitCost(1e9, 1e9)
    copy, agent = copied_session(source, {"options": options}, False, large, harness.now)
    with harness.store.reader() as reader:
        file = b"".join(copy_session(reader, source, copy, agent))
    change(harness, **options)
    key, session = harness.key, harness.session
    assert (session.estimate, session.model_version) == (source.estimate, source.model_version)
    assert (session.fit_due, world.kept()) == (session.n_rounds, None)
    world.fit()
    assert harness.session.fit_due is None
    anew = in_use(harness)
    assert anew != theta
    made, _ = harness.import_file(tmp_path, file)
    harness.key = made.key
    harness.tick()
    world.fit()
    assert in_use(harness) == anew
    harness.key, n = key, world.n_from_sums
    world.play(60)
    assert world.n_from_sums > n or "own" in options
    assert differences(harness) == []
    with harness.store.reader() as reader:
        file = b"".join(export_session(reader, harness.session))
    anew = in_use(harness)
    made, _ = harness.import_file(tmp_path, file)
    harness.key = made.key
    assert in_use(harness) == anew
    world.play(30)
    assert differences(harness) == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_fit_that_runs_meanwhile_is_given_up_for_one_with_the_new_options(
    harness: ServiceHarness, database_url: str, tmp_path: Path
) -> None:
    world = lived(harness, database_url)
    harness.reward(0.5, "a", round=1, correct=True, reward_id="again")
    harness.run(ask_fit(harness.key, harness.agents))
    due = harness.session.fit_due
    assert due is not None
    answer = run_fit(database_url, *harness.key, due, 0.0)
    assert answer is not None
    change(harness, trend=True)
    with harness.store.reader() as reader:
        file = b"".join(export_session(reader, harness.session))
    harness.run(FinishFit(harness.key, due, answer, harness.agents))
    with harness.store.reader() as reader:
        last = reader.estimate(harness.session.key, harness.session.n_estimates)
    assert last is not None
    assert (last.status, harness.session.fit_due) == ("skipped", due)
    assert world.kept() is None
    world.fit()
    assert len(in_use(harness)[3]["values"]) == 1
    assert differences(harness) == []
    made, _ = harness.import_file(tmp_path, file)
    harness.key = made.key
    world.play(20)
    assert differences(harness) == []
