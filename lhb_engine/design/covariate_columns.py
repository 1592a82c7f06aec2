"""The covariates of a history's rounds and of its measurements, checked and joined."""

import numpy as np

from lhb_engine.history import Floats, Measurements, Trajectory


def of_rounds(parts: list[Trajectory], n_covariates: int) -> Floats:
    """Return the covariates of all rounds, (n_rounds, n_covariates).

    Raises
    ------
    ValueError
        A trajectory has another number of them, or one is not finite.
    """
    blocks = []
    for part in parts:
        values = part.covariates
        values = np.zeros((len(part.contexts), 0)) if values is None else values
        if values.shape != (len(part.contexts), n_covariates):
            raise ValueError(f"every round needs {n_covariates} covariates")
        blocks.append(values)
    joined = np.concatenate(blocks)
    if not np.isfinite(joined).all():
        raise ValueError("covariates must be finite")
    return joined


def of_measurements(measured: list[Measurements], there: np.ndarray) -> Floats | None:
    """Return what was measured with those measurements that are `there`; None where nothing was.

    Parameters
    ----------
    measured : list of Measurements
    there : (n,) bool array
        Marks some of all of them.

    Returns
    -------
    (n_there, n_covariates) array or None
        NaN where the sum over the rounds counts.

    Raises
    ------
    ValueError
        One is infinite.
    """
    own = [one.covariates for one in measured]
    width = next((beside.shape[1] for beside in own if beside is not None), None)
    if width is None:
        return None
    every = [
        np.full((len(one), width), np.nan) if beside is None else beside
        for one, beside in zip(measured, own, strict=True)
    ]
    columns: Floats = np.concatenate(every)[there]
    if np.isinf(columns).any():
        raise ValueError("covariates must be finite")
    return columns
