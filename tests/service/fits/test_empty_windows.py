"""Fits of windows of which no round is left, as those who began them were erased."""

from pathlib import Path

import pytest

from lhb_engine.agents import ALGORITHMS, make_agent
from service.commands.erase_trajectory import erase_trajectory
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.transfer.replay import replay_session
from tests.service.service_harness import ServiceHarness

FITTED = [
    name
    for name, kind in ALGORITHMS.items()
    if not kind.needs_truth and make_agent(name, dim=2, horizon=4).next_fit(0) is not None
]


@pytest.mark.parametrize("algorithm", FITTED)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_window_that_nobody_is_left_of_has_no_data(
    tmp_path: Path, database_url: str, algorithm: str
) -> None:
    """That is an answer, and no failure with another attempt."""
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm=algorithm)
    harness.rounds(16, trajectory="ann")
    due = harness.session.fit_due
    assert due is not None
    harness.run_large(erase_trajectory(harness.key, "ann"))
    answer = run_fit(database_url, *harness.key, due, 0.0)
    assert answer is not None
    finish = FinishFit(harness.key, due, answer, harness.agents)
    assert harness.run(finish) == "insufficient_data"
    assert [one.attempts for one in harness.session.schedule.waiting if one.key == due] == []
    with harness.store.reader() as reader:
        assert replay_session(reader, harness.session).differences == []
    harness.close()
