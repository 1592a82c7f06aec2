"""Moments of a log of many files: those of the whole, on one machine or on a cluster."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

from clients.cli.main import app
from clients.large_logs import files_of, log_moments
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.history import FitWindow, History, Measurements, Trajectory

HORIZON, DIM = 7, 3
THETA = np.array([0.6, -0.64, 0.48])
WEIGHTS = np.array([0.0, 0.5, 0.0, 0.0, 0.3, 0.0, 0.2])


def written(
    folder: Path, cuts: list[int], lengths: list[int], longest: int = 1, seed: int = 0
) -> History:
    """Write trajectories into files that are cut anywhere; return the same as one history.

    A reward is the total of up to `longest` rounds.
    """
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rng = np.random.default_rng(seed)
    parts, position, columns = {}, 1, {n: [] for n in ("trajectory", "context", "reward")}
    columns |= {"rounds": []} if longest > 1 else {}
    for i, n in enumerate(lengths):
        xi = rng.uniform(-1, 1, (n, DIM))
        y = np.convolve(xi @ THETA, WEIGHTS)[:n] + 0.5 + 0.1 * rng.standard_normal(n)
        spans = rng.integers(1, longest + 1, n)
        last = np.minimum(np.cumsum(spans), n)
        last = np.unique(last)
        first = np.append(1, last[:-1] + 1)
        seen = rng.random(len(last)) < 0.8
        first, last = first[seen], last[seen]
        sums = np.append(0.0, np.cumsum(y))
        value = sums[last] - sums[first - 1]
        where = np.arange(position, position + n)
        parts[str(i)] = Trajectory(xi, Measurements(first, last, value), positions=where)
        rewards, rounds = [None] * n, [None] * n
        for a, b, v in zip(first.tolist(), last.tolist(), value.tolist(), strict=True):
            rewards[b - 1], rounds[b - 1] = v, b - a + 1
        columns["trajectory"] += [f"user {i}"] * n
        columns["context"] += xi.tolist()
        columns["reward"] += rewards
        if longest > 1:
            columns["rounds"] += rounds
        position += n
    table = pa.table(columns)
    table = table.set_column(2, "reward", table["reward"].cast(pa.float64()))
    folder.mkdir(exist_ok=True)
    edges = [0, *cuts, len(table)]
    for i, (start, stop) in enumerate(pairwise(edges)):
        parquet.write_table(table[start:stop], folder / f"{i:04}.parquet", row_group_size=5)
    n = sum(lengths)
    return History(DIM, parts).over(FitWindow(1, 1, n, HORIZON, n))


@pytest.mark.parametrize(
    ("cuts", "lengths", "longest"),
    [
        ([], [50], 1),
        ([20, 40], [60], 1),
        ([3, 5, 5, 6, 30], [40], 1),  # files of fewer rows than there are lags, or of none
        ([10, 25, 26, 50], [25, 4, 31], 1),  # cuts at and inside trajectories
        ([20, 40, 60], [80], 4),  # and inside totals
        ([3, 6, 9, 12, 15, 30, 31, 32, 33], [40], 2),
        ([7, 30, 31, 33, 60], [31, 9, 40], 9),
    ],
)
def test_cut_anywhere_the_moments_are_those_of_the_whole(
    tmp_path: Path, cuts: list[int], lengths: list[int], longest: int
) -> None:
    whole = session_moments(align(written(tmp_path / "log", cuts, lengths, longest)))
    assert whole.n_pairs > 0
    found = log_moments(tmp_path / "log", HORIZON)
    np.testing.assert_allclose(found.sums, whole.sums, atol=1e-10)
    assert (found.n_rows, found.n_pairs) == (whole.n_rows, whole.n_pairs)


def files_with(folder: Path, *tables: dict) -> Path:
    """Write files with these columns; contexts are 1."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for i, table in enumerate(tables):
        contexts = [[1.0]] * len(table["reward"])
        parquet.write_table(pa.table({"context": contexts, **table}), folder / f"{i}.parquet")
    return folder


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([{"trajectory": ["a", "b", "a"], "reward": [1.0, 2.0, 3.0]}], "0.parquet: rows of 'a'"),
        (
            [
                {"trajectory": ["a", "b"], "reward": [1.0, 2.0]},
                {"trajectory": ["b", "c"], "reward": [1.0, 2.0]},
                {"trajectory": ["c", "a"], "reward": [1.0, 2.0]},
            ],
            "0.parquet comes back in .*2.parquet",
        ),
        ([{"reward": [1.0]}, {"rounds": [1, 4], "reward": [1.0, 2.0]}], "1.parquet: .*before its"),
        ([{"rounds": [1, 1, 2], "reward": [1.0, 2.0, 3.0]}], "same round"),
        (
            [{"rounds": [1, 1], "reward": [1.0, 2.0]}, {"rounds": [2], "reward": [1.0]}],
            "same round",
        ),
        ([{"rounds": [0], "reward": [1.0]}], "whole numbers"),
        ([{"rounds": [1.5], "reward": [1.0]}], "whole numbers"),
        ([{"reward": []}], "no round"),
    ],
)
def test_what_would_be_wrong_is_refused(tmp_path: Path, tables: list[dict], said: str) -> None:
    """A trajectory without its past, totals of rounds that are not there or counted twice."""
    with pytest.raises(ValueError, match=said):
        log_moments(files_with(tmp_path, *tables), HORIZON)


@pytest.mark.slow
def test_a_cluster_of_processes_gives_the_same_to_the_bit(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    whole = session_moments(align(written(tmp_path / "log", [300, 601, 900, 1000], [500, 700], 2)))
    with threadpool_limits(1):  # as in the cluster's processes
        alone = log_moments(tmp_path / "log", HORIZON)
    np.testing.assert_allclose(alone.sums, whole.sums, atol=1e-9)
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
        (tmp_path / "bad").mkdir()
        wrong = files_with(tmp_path / "bad", {"trajectory": ["a", "b", "a"], "reward": [1.0] * 3})
        with pytest.raises(ValueError, match="stand together"):
            log_moments(wrong, HORIZON, client)
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
