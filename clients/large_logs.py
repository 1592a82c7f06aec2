"""Moments of a log that one machine does not hold: partitioned Parquet, read by a dask cluster.

A log is a folder of .parquet files as `clients/parquet_rounds.py` reads them. A trajectory may go
on in the next file, and so may a total: a task reads its own file, and those rows before it that
its lags and totals reach back to.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clients.parquet_rounds import parts_of, rows_before
from lhb_engine.agents.fit_past import ACTIVE
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.design.moments import Moments, coefficients
from lhb_engine.history import FitWindow, History, Trajectory
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior


class FileSums(NamedTuple):
    """Moments of a file's rows, and hashes of the keys of trajectories that begin in it."""

    moments: Moments
    keys: NDArray[np.uint64]


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
        The folder holds no .parquet file or no round, or rows that are not of this form; or rows of
        a trajectory do not stand together, so that its lags are not known.
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
    found: Iterator[FileSums]
    if client is None:
        found = (moments_of_file(files, i, horizon) for i in range(len(files)))
    else:
        found = _on_cluster(list(files), horizon, client)
    keys = []
    for part in found:
        yield part.moments
        keys.append(part.keys)
    known, counts = np.unique(np.concatenate(keys), return_counts=True)
    for i in np.flatnonzero(counts > 1)[:1]:
        first, again = [file for file, own in zip(files, keys, strict=True) if known[i] in own][:2]
        raise ValueError(f"a trajectory of {first} comes back in {again}, after others")


def _on_cluster(files: list[str], horizon: int, client: Any) -> Iterator[FileSums]:
    [every] = client.scatter([files], broadcast=True, hash=False)
    tasks = [
        client.submit(moments_of_file, every, i, horizon, pure=False) for i in range(len(files))
    ]
    for future in tasks:
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


def moments_of_file(files: Sequence[str], i: int, horizon: int) -> FileSums:
    """Return the moments of the i-th file's rows; those before it supply lags and pairs."""
    path, own = files[i], list(parts_of(files[i]))
    keys = [part.key for part in own]
    if len(set(keys)) < len(keys):
        again = Counter(keys).most_common(1)[0][0]
        raise ValueError(f"{path}: rows of {again!r} do not stand together")
    before = None
    if own:  # a pair's earlier row reaches back by its total, that of the later row, and the lags
        n_before = horizon + 2 * int(own[0].spans.max())
        before = rows_before(files[:i], own[0].key, n_before)
    begun = keys if before is None else keys[1:]
    hashes = np.frombuffer(
        b"".join(blake2b(k.encode(), digest_size=8).digest() for k in begun), "<u8"
    )
    dim = own[0].contexts.shape[1] if own else _width(files)
    trajectories: dict[str, Trajectory] = {}
    first = last = 0
    for n, part in enumerate(own):
        n_old = 0
        if n == 0 and before is not None:
            part, n_old = part.after(before), len(before.rewards)
            first = n_old
        begin, last = last, last + len(part.contexts)
        trajectories[f"{n} {part.key}"] = Trajectory(
            part.contexts,
            part.measurements(path, n_old),
            positions=np.arange(begin + 1, last + 1),
        )
    if last == first:
        return FileSums(Moments.zero(horizon, dim), hashes)
    history = History(dim, trajectories).over(FitWindow(1, 1, last, horizon, last))
    rows = align(history)
    places = rows.in_order()
    found = session_moments(rows, places=places[rows.last[places] > first])
    return FileSums(found.widened(horizon), hashes)


def _width(files: Sequence[str]) -> int:
    """Return the dim of the first round that the files hold."""
    for path in files:
        for part in parts_of(path):
            return int(part.contexts.shape[1])
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
    found, rho = rank_one_posterior(fitted.whitened(0.0), [8, fitted.n_rows]), 0.0
    rho = fitted.autocorrelation(found.theta, found.weights, found.effects)
    found = rank_one_posterior(
        fitted.whitened(rho), [8, fitted.n_rows], start=found.theta, weights=found.weights
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
