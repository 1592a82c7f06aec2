"""Where rows are dropped, the fit after an erasure begins from the sums that are left."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from service.commands.erase_trajectory import erase_trajectory
from service.commands.out_of_turn import ask_fit
from service.fits.fit_answer import Fitted
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.transfer.file_format import export_session, written
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.fits.retention_twins import Twins, small_limits  # noqa: F401
from tests.service.service_harness import ZERO, ServiceHarness


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("sign", "bends"),
    [
        pytest.param(1.0, 0.0, id=""),
        pytest.param(-1.0, 0.0, id="after an alarm", marks=pytest.mark.slow),
        pytest.param(1.0, 1.5, id="with a product", marks=pytest.mark.slow),
    ],
)
def test_a_fit_that_finds_nothing_leaves_sums_for_the_next(
    harness: ServiceHarness, database_url: str, tmp_path: Path, sign: float, bends: float
) -> None:
    """The estimate goes, the sums stay: no later fit could do without them. It moves house, too."""
    twins = Twins(harness, database_url, {"keep_rounds": 100})
    twins.bends = bends
    twins.play(260, ("", "ann"))
    if sign < 0.0:
        twins.play(300, ("", "ann"), sign)
    assert twins.drop(1)
    first = twins.kept(1).first_round
    assert (first > 1) == (sign < 0.0)
    key = harness.key = twins.keys[1]
    harness.run_large(erase_trajectory(key, "ann"))

    def answer() -> Fitted:
        found = run_fit(database_url, *harness.key, harness.session.fit_due or 0, 0.0)
        assert found is not None
        return found

    def finish(fitted: Fitted) -> str:
        due = harness.session.fit_due or 0
        command = FinishFit(harness.key, due, fitted, harness.agents)
        return str(harness.run(command))

    fitted = answer()
    assert fitted.estimate is not None, fitted.reason
    assert bool(fitted.estimate["products"]) == bool(bends)
    none = ZERO.to_json() | {name: fitted.estimate[name] for name in ("lag_weights", "products")}
    assert finish(replace(fitted, estimate=none)) == "zero"
    assert harness.session.estimate == 0
    with harness.store.reader() as reader:
        kept = reader.kept_sums(key)
        records = [json.loads(line) for line in export_session(reader, harness.session)][:-1]
    assert kept is not None
    assert (kept.estimate, kept.first_round, kept.seen) == (0, first, None)
    records[0]["session"]["keep_rounds"] = None  # so few are too few for an import
    moved, _ = harness.import_file(tmp_path, b"".join(written(iter(records))))
    for harness.key in (key, moved.key):
        decision = harness.decide(contexts=twins.rng.uniform(-1, 1, (1, 3)))
        harness.reward(0.1, round=decision.round)
        harness.run(ask_fit(harness.key, harness.agents))
        again = answer()
        assert again.estimate is not None, again.reason
        assert again.estimate["products"] == fitted.estimate["products"]
        assert again.estimate["n_rows"] == fitted.estimate["n_rows"] + 1
        assert finish(again) == again.estimate["status"]
