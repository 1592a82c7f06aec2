"""The checked measurements of a window, which `fit_rows` and `aligned_rounds` lay out."""

import numpy as np

from lhb_engine.history import FitWindow, History, Ints, Measurements, Trajectory


def checked_window(history: History) -> FitWindow:
    """Return the history's window.

    Raises
    ------
    ValueError
        The history has no window or no round in it, or its rewards are not finite.
    """
    if history.window is None:
        raise ValueError("the history has no window: take History.over(window)")
    if not history.trajectories:
        raise ValueError("the history holds no round of its window")
    for part in history.trajectories.values():
        if not np.isfinite(part.measurements.value).all():
            raise ValueError("rewards must be finite")
    return history.window


def rounds_inside(part: Trajectory, window: FitWindow) -> np.ndarray:
    """Return whether each round of the trajectory is in the window, (n_rounds,) bool."""
    numbering = part.numbering
    return np.asarray((numbering >= window.first) & (numbering <= window.last))


def measured_inside(
    part: Trajectory, inside: np.ndarray, group: Ints | None = None
) -> Measurements:
    """Return the measurements whose rounds are all inside the window.

    Parameters
    ----------
    part : Trajectory
    inside : (n_rounds,) bool array
        As `rounds_inside` returns.
    group : (n_rounds,) array, optional
        A group number a round: the first and last round must then be in the same group.
    """
    m = part.measurements.between(part.first_round, part.last_round)
    before = np.concatenate([[0], np.cumsum(inside)])
    first, last = m.first - part.first_round, m.last - part.first_round
    whole = before[last + 1] - before[first] == last - first + 1
    if group is not None:
        whole &= group[first] == group[last]
    return m.chosen(whole)
