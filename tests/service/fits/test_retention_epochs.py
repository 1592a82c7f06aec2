"""A session whose algorithm fits by epochs, or not at all, drops rounds that no window has."""

from pathlib import Path

import pytest

from service.commands.erase_trajectory import erase_trajectory
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.fits.retention_twins import Twins, small_limits  # noqa: F401
from tests.service.service_harness import ServiceHarness

pytestmark = pytest.mark.slow
NAMES = ("", "a", "b")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("algorithm", ["ad_lasso", "doubling_lasso", "sw_mp", "lin_ucb", "uniform"])
def test_fits_are_those_of_a_session_that_keeps_all(
    harness: ServiceHarness, algorithm: str, database_url: str, tmp_path: Path
) -> None:
    """Also the last one, which is made again once somebody is erased, and after a move."""
    twins = Twins(harness, database_url, {"keep_days": 1 / 24}, algorithm=algorithm)
    n_drops = 0
    for _ in range(8):
        twins.play(40, NAMES)
        harness.now += 3600.0
        n_drops += twins.drop(1)
    assert n_drops >= 2
    assert twins.session(1).n_dropped_rounds > 50
    assert twins.session(0).n_complete == twins.session(1).n_complete
    for key in twins.keys:
        harness.run_large(erase_trajectory(key, "b"))
    twins.waiting = [one for one in twins.waiting if one[2] != "b"]
    twins.fit()
    twins.play(20, ("", "a"))
    session = twins.session(1)
    with harness.store.reader() as reader:
        assert replay_session(reader, session).differences == []
        file = b"".join(export_session(reader, session))
    moved, _ = harness.import_file(tmp_path, file)
    twins.keys.append(moved.key)
    twins.play(60, ("", "a"))
