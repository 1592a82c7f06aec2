"""Rounds of trajectories in .parquet files.

The rows of files in the order of their names are rounds, those of one trajectory one after the
other. Columns:

    context     the d numbers of what was selected, a list
    reward      the measured value; null where missing
    rounds      how many rounds the reward is the total of, this one the last; without this column 1
    trajectory  its key; without this column all rows are one trajectory
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lhb_engine.history import Floats, Ints, Measurements

COLUMNS = ("trajectory", "context", "reward", "rounds")


class Part(NamedTuple):
    """Consecutive rounds of a trajectory.

    Attributes
    ----------
    key : str
    contexts : (n, dim) array
    rewards : (n,) array
        NaN where missing.
    spans : (n,) array
        Number of rounds that each reward is the total of.
    """

    key: str
    contexts: Floats
    rewards: Floats
    spans: Ints

    def after(self, before: "Part") -> "Part":
        """Return both as one."""
        joined = (np.concatenate(pair) for pair in zip(before[1:], self[1:], strict=True))
        return Part(self.key, *joined)

    def measurements(self, path: str, n_before: int) -> Measurements:
        """Return its rewards; a total that begins before the part's first round is left out.

        Raises
        ------
        ValueError
            Such a total is of one of the rounds after the first `n_before`, so that the trajectory
            lacks its rounds; or two rewards are of the same round.
        """
        last = np.flatnonzero(np.isfinite(self.rewards)) + 1
        first = last - self.spans[last - 1] + 1
        if (first[last > n_before] < 1).any():
            raise ValueError(f"{path}: a reward of {self.key!r} is of rounds before its first one")
        known = first >= 1
        first, last = first[known], last[known]
        if (first[1:] <= last[:-1]).any():
            raise ValueError(f"{path}: two rewards of {self.key!r} are of the same round")
        return Measurements(first, last, self.rewards[last - 1])


def parts_of(path: str, n_last: int | None = None) -> Iterator[Part]:
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
        columns = [name for name in COLUMNS if name in names]
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
    spans = np.ones(n, np.int64)
    if "rounds" in columns:
        given = np.asarray(table["rounds"].to_numpy(), np.float64)
        given = np.where(np.isnan(given) & np.isnan(rewards), 1.0, given)
        if not ((given >= 1) & (given == np.floor(given))).all():
            raise ValueError(f"{path}: rounds must be whole numbers from 1 on")
        spans = given.astype(np.int64)
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        here = slice(start, stop)
        yield Part(str(keys[start]), contexts[here], rewards[here], spans[here])


def rows_before(files: Sequence[str], key: str, n_rows: int) -> Part | None:
    """Return the last rows before the next file, of the trajectory that goes on in it."""
    found: Part | None = None
    for path in reversed(files):
        missing = n_rows - (0 if found is None else len(found.rewards))
        parts = list(parts_of(path, missing)) if missing > 0 else []
        if missing > 0 and not parts:
            continue  # an empty file
        if not parts or parts[-1].key != key:
            break
        found = parts[-1] if found is None else found.after(parts[-1])
        if len(parts) > 1:
            break
    return found
