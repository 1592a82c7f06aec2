"""Moments of a log that one machine does not hold: partitioned Parquet, read by a dask cluster.

A log is a folder of .parquet files. Their rows in the order of the file names are rounds, those of
one trajectory one after the other. Columns:

    context     the d numbers of what was selected, a list
    reward      the round's measured value; null where missing
    trajectory  its key; without this column all rows are one trajectory

A trajectory may go on in the next file: a task reads its own file, and as many rows before it as
the horizon has lags.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lhb_engine.agents.anytime_fit import ACTIVE
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.design.moments import Moments
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.fit_data import MomentData
from lhb_engine.posterior.later_moments import coefficients
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior

Part = tuple[str, Any, Any]  # trajectory, contexts (n, dim), rewards (n,)


def log_moments(log: str | Path, horizon: int, client: Any = None) -> Moments:
    """Add up the moments of a log of many files.

    Parameters
    ----------
    log : path
        A folder of .parquet files that all workers can read.
    horizon : int
        Number of lags h.
    client : distributed.Client, optional
        A file is a task of its cluster. By default all files are read here, one by one.

    Returns
    -------
    Moments
        Equal to the bit whatever the number of workers: the sums of the files are added in order.

    Raises
    ------
    ValueError
        The folder holds no .parquet file or no round, or rows that are not of this form.
    """
    return total(file_moments(files_of(log), horizon, client))


def files_of(log: str | Path) -> list[str]:
    """Return the log's files in order."""
    files = sorted(str(path) for path in Path(log).glob("*.parquet"))
    if not files:
        raise ValueError(f"{log}: no .parquet file in this folder")
    return files


def file_moments(files: Sequence[str], horizon: int, client: Any = None) -> Iterator[Moments]:
    """Yield the moments of each file, in order; see `log_moments`."""
    tasks = [(list(files[: i + 1]), horizon) for i in range(len(files))]
    if client is None:
        yield from (moments_of_last(*task) for task in tasks)
        return
    futures = [client.submit(moments_of_last, *task, pure=False) for task in tasks]
    for future in futures:
        found = future.result()
        future.release()
        yield found


def total(parts: Iterator[Moments]) -> Moments:
    """Add moments in order."""
    added: Moments | None = None
    for part in parts:
        added = part if added is None else added + part
    assert added is not None
    return added


def moments_of_last(files: Sequence[str], horizon: int) -> Moments:
    """Return the moments of the last file's rows; those before it supply lags and pairs."""
    own = list(_parts(files[-1]))
    before = _rows_before(files[:-1], own[0][0], horizon) if own else None
    dim = own[0][1].shape[1] if own else _width(files)
    trajectories: dict[str, Trajectory] = {}
    first = last = 0
    for i, (key, contexts, rewards) in enumerate(own):
        if i == 0 and before is not None:
            contexts = np.concatenate([before[1], contexts])
            rewards = np.concatenate([before[2], rewards])
            first = len(before[1])
        seen = np.flatnonzero(np.isfinite(rewards))
        begin, last = last, last + len(contexts)
        trajectories[f"{i} {key}"] = Trajectory(
            contexts,
            Measurements.single(seen + 1, rewards[seen]),
            positions=np.arange(begin + 1, last + 1),
        )
    if last == first:
        return Moments.zero(horizon, dim)
    history = History(dim, trajectories).over(FitWindow(1, 1, last, horizon, last))
    rows = align(history)
    places = rows.in_order()
    return session_moments(rows, places=places[rows.last[places] > first]).widened(horizon)


def _parts(path: str, n_last: int | None = None) -> Iterator[Part]:
    """Yield the trajectories of a file, or of its last rows."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if not {"context", "reward"} <= set(names):
            raise ValueError(f"{path}: needs the columns context and reward, and has {names}")
        groups = list(range(file.num_row_groups))
        if n_last is not None:
            n_rows = 0
            kept: list[int] = []
            while groups and n_rows < n_last:
                kept.insert(0, groups.pop())
                n_rows += file.metadata.row_group(kept[0]).num_rows
            groups = kept
        columns = [name for name in ("trajectory", "context", "reward") if name in names]
        table = file.read_row_groups(groups, columns)
    if n_last is not None:
        table = table.slice(max(0, len(table) - n_last))
    n = len(table)
    if n == 0:
        return
    flat = table["context"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    if len(flat) % n or table["context"].null_count:
        raise ValueError(f"{path}: contexts must be lists of one length")
    contexts = np.asarray(flat, np.float64).reshape(n, -1)
    rewards = np.asarray(table["reward"].to_numpy(), np.float64)
    keys = np.array(table["trajectory"].to_pylist() if "trajectory" in columns else [""] * n, str)
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        yield str(keys[start]), contexts[start:stop], rewards[start:stop]


def _rows_before(files: Sequence[str], key: str, n_rows: int) -> Part | None:
    """Return the last rows before the next file, of the trajectory that goes on in it."""
    found: list[Part] = []
    for path in reversed(files):
        missing = n_rows - sum(len(part[1]) for part in found)
        parts = list(_parts(path, missing)) if missing > 0 else []
        if not parts or parts[-1][0] != key:
            break
        found.insert(0, parts[-1])
        if len(parts) > 1:
            break
    if not found:
        return None
    return key, np.concatenate([p[1] for p in found]), np.concatenate([p[2] for p in found])


def _width(files: Sequence[str]) -> int:
    """Return the dim of the first round that the files hold."""
    for path in files:
        for _, contexts, _ in _parts(path):
            return int(contexts.shape[1])
    raise ValueError("the log holds no round")


def evaluate_log(log: str | Path, horizon: int, client: Any = None) -> dict[str, Any]:
    """Fit the rank-one model to the first four fifths of a log's files, and predict the others.

    Parameters
    ----------
    log, horizon, client
        As in `log_moments`; at least two files.

    Returns
    -------
    dict
        `theta`, `lag_weights`, `active_lags`, `intercept`, `noise`, `autocorrelation`, `n_rows` of
        the fit; `held_out` with `n_rows`, the mean squared `error`, that of the fitted rows' mean
        (`naive_error`), and `skill` = 1 - error / naive_error.
    """
    files = files_of(log)
    n_fitted = len(files) * 4 // 5
    if n_fitted < 1:
        raise ValueError(f"{log}: one file leaves none to predict")
    parts = file_moments(files, horizon, client)
    fitted = total(islice(parts, n_fitted))
    later = total(parts)
    if min(fitted.n_rows, later.n_rows) < 1:
        raise ValueError(f"{log}: no reward in the first four fifths of the files, or after them")
    data = MomentData(fitted)
    found, rho = rank_one_posterior(data.whitened(0.0), [8, fitted.n_rows]), 0.0
    rho = data.autocorrelation(found.theta, found.weights, found.effects)
    found = rank_one_posterior(
        data.whitened(rho), [8, fitted.n_rows], start=found.theta, weights=found.weights
    )
    mean = float(fitted.rows.covariate_target[0] / fitted.rows.covariates[0, 0])
    dim = fitted.dim
    ours = coefficients(found.theta, found.weights, found.effects, horizon)
    naive = coefficients(np.zeros(dim), np.zeros(horizon), np.array([mean]), horizon)
    squares = np.diag(later.rows.residual_products(np.array([ours, naive]))) / later.n_rows
    error, naive_error = squares.tolist()
    return {
        "n_rows": fitted.n_rows,
        "theta": found.theta.tolist(),
        "lag_weights": found.weights.tolist(),
        "active_lags": np.flatnonzero(found.inclusion > ACTIVE).tolist(),
        "intercept": float(found.effects[0]),
        "noise": found.noise,
        "autocorrelation": rho,
        "held_out": {
            "n_rows": later.n_rows,
            "error": error,
            "naive_error": naive_error,
            "skill": 1.0 - error / naive_error if naive_error > 0 else 0.0,
        },
    }
