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
    found = []
    for part in parts:
        given = part.covariates
        given = np.zeros((len(part.contexts), 0)) if given is None else given
        if given.shape != (len(part.contexts), n_covariates):
            raise ValueError(f"every round needs {n_covariates} covariates")
        found.append(given)
    joined = np.concatenate(found)
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
    given = [one.covariates for one in measured]
    width = next((beside.shape[1] for beside in given if beside is not None), None)
    if width is None:
        return None
    every = [
        np.full((len(one), width), np.nan) if beside is None else beside
        for one, beside in zip(measured, given, strict=True)
    ]
    found: Floats = np.concatenate(every)[there]
    if np.isinf(found).any():
        raise ValueError("covariates must be finite")
    return found
