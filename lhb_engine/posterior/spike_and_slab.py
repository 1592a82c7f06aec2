"""Lag weights with a spike at zero and a normal slab: what a z-score says for one, and draws."""

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from lhb_engine.history import Floats

# by gain, evenly spaced: the z-score that has it. Lines between them are exact to 1e-3 of it.
_LEAST, _SPACING = -4.5, 0.02
_Z = np.concatenate([-np.geomspace(37.0, 8.0, 400), np.linspace(-7.9, 12.0, 4000)])
_SCORES = np.interp(np.arange(_LEAST, 60.0, _SPACING), 0.5 * _Z**2 + log_ndtr(_Z), _Z)


def gain(score: Floats, signed: bool) -> Floats:
    """Log odds that data with z-score `score` add: half a normal slab, a whole one if `signed`."""
    half = 0.5 * score * score
    return half if signed else np.asarray(half + log_ndtr(score))


def score_for(needed: Floats, signed: bool) -> Floats:
    """Return the z-score (its size, if `signed`) from which the gain exceeds `needed`."""
    if signed:
        return np.sqrt(np.maximum(2.0 * needed, 0.0))
    place = np.clip((needed - _LEAST) / _SPACING, 0.0, len(_SCORES) - 2.0)
    index = place.astype(np.intp)
    below = _SCORES[index]
    return np.asarray(below + (place - index) * (_SCORES[index + 1] - below))


def gibbs_pass(products: Floats, before: Floats, bar: Floats, at: Floats, signed: bool) -> Floats:
    """Draw some weights of each chain in turn, each given all others as they then are.

    Parameters
    ----------
    products : (n_chains, n_steps, 1 + n_steps) array, changed
        A weight's column times the error as it is now, and times minus every column; in units in
        which a weight's conditional variance and the noise are 1.
    before, bar, at : (n_chains, n_steps) arrays
        The weights as they are; the score from which a weight is active; where in its
        distribution it then is.

    Returns
    -------
    (n_chains, n_steps) array
    """
    c, n_steps = before.shape
    products[:, :, 0] -= (products[:, :, 1:] @ before[:, :, None])[:, :, 0]
    products.reshape(c, -1)[:, 1 :: n_steps + 2] = 0.0  # of a column with itself
    drawn = np.empty((c, 1 + n_steps))
    drawn[:, 0], drawn[:, 1:] = 1.0, before
    steps = zip(products.transpose(1, 0, 2), drawn.T[1:], bar.T, at.T, strict=True)
    for others, new, least, place in steps:
        score = np.vecdot(others, drawn)
        new.fill(0.0)
        if signed:
            np.add(score, place, out=new, where=np.abs(score) > least)
        else:
            tail = ndtr(score)
            tail *= place
            np.subtract(score, ndtri(tail), out=new, where=score > least)
    return drawn[:, 1:]
