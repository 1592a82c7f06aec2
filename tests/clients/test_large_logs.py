"""Moments of a log of many files: those of the whole, on one machine or on a cluster."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from clients.cli.main import app
from clients.large_logs import files_of, log_moments
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.history import FitWindow, History, Measurements, Trajectory

HORIZON, DIM = 7, 3
THETA = np.array([0.6, -0.64, 0.48])
WEIGHTS = np.array([0.0, 0.5, 0.0, 0.0, 0.3, 0.0, 0.2])


def written(folder: Path, cuts: list[int], lengths: list[int], seed: int = 0) -> History:
    """Write trajectories into files that are cut anywhere; return the same as one history."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rng = np.random.default_rng(seed)
    parts, position, columns = {}, 1, {"trajectory": [], "context": [], "reward": []}
    for i, n in enumerate(lengths):
        xi = rng.uniform(-1, 1, (n, DIM))
        y = np.convolve(xi @ THETA, WEIGHTS)[:n] + 0.5 + 0.1 * rng.standard_normal(n)
        seen = rng.random(n) < 0.8
        where = np.arange(position, position + n)
        measured = Measurements.single(np.flatnonzero(seen) + 1, y[seen])
        parts[str(i)] = Trajectory(xi, measured, positions=where)
        columns["trajectory"] += [f"user {i}"] * n
        columns["context"] += xi.tolist()
        columns["reward"] += [v if s else None for v, s in zip(y.tolist(), seen, strict=True)]
        position += n
    table = pa.table(columns)
    folder.mkdir(exist_ok=True)
    edges = [0, *cuts, len(table)]
    for i, (start, stop) in enumerate(pairwise(edges)):
        parquet.write_table(table[start:stop], folder / f"{i:04}.parquet", row_group_size=5)
    n = sum(lengths)
    return History(DIM, parts).over(FitWindow(1, 1, n, HORIZON, n))


@pytest.mark.parametrize(
    ("cuts", "lengths"),
    [
        ([], [50]),
        ([20, 40], [60]),
        ([3, 5, 6, 30], [40]),  # files of fewer rows than there are lags
        ([10, 25, 26, 50], [25, 4, 31]),  # cuts at and inside trajectories
    ],
)
def test_cut_anywhere_the_moments_are_those_of_the_whole(
    tmp_path: Path, cuts: list[int], lengths: list[int]
) -> None:
    whole = session_moments(align(written(tmp_path / "log", cuts, lengths)))
    found = log_moments(tmp_path / "log", HORIZON)
    np.testing.assert_allclose(found.sums, whole.sums, atol=1e-10)
    assert (found.n_rows, found.n_pairs) == (whole.n_rows, whole.n_pairs)


def test_a_cluster_of_processes_gives_the_same_to_the_bit(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    written(tmp_path / "log", [300, 600, 900, 1000], [500, 700])
    alone = log_moments(tmp_path / "log", HORIZON)
    arguments = ["evaluate", str(tmp_path / "log"), "--horizon", str(HORIZON), "--json"]
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = log_moments(tmp_path / "log", HORIZON, client)
        address = cluster.scheduler_address
        answer = CliRunner().invoke(app, [*arguments, "--dask", address], catch_exceptions=False)
    assert (found.sums == alone.sums).all()
    out = json.loads(answer.output)
    assert out["n_rows"] < alone.n_rows
    assert out["held_out"]["n_rows"] + out["n_rows"] == alone.n_rows
    assert np.array(out["theta"]) @ THETA > 0.99
    assert out["held_out"]["skill"] > 0.8
    assert out["held_out"]["error"] == pytest.approx(0.01, rel=0.5)
    assert out["active_lags"] == [1, 4, 6]


@pytest.mark.parametrize("table", [{"context": [[1.0]]}, {"reward": [1.0], "x": [2.0]}])
def test_what_is_no_log_is_refused(tmp_path: Path, table: dict) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    with pytest.raises(ValueError, match="parquet file in this folder"):
        files_of(tmp_path)
    parquet.write_table(pa.table(table), tmp_path / "0.parquet")
    with pytest.raises(ValueError, match="needs the columns context and reward"):
        log_moments(tmp_path, HORIZON)


def test_a_folder_needs_a_cluster_and_a_cluster_a_folder(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log.csv").write_text("arm,reward\n")
    for arguments in ([str(tmp_path / "log.csv"), "--dask", "tcp://127.0.0.1:1"],):
        answer = CliRunner().invoke(app, ["evaluate", *arguments, "--horizon", "5"])
        assert answer.exit_code == 2
        assert "folder" in answer.output
