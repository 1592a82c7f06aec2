"""The full conditional of a spike-and-slab lag weight, and draws from it (docs/model.md 7)."""

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from lhb_engine.history import Floats

# Table of the inverse of `gain` on an even grid; linear interpolation has relative error 1e-3.
_LEAST, _SPACING = -4.5, 0.02
_Z = np.concatenate([-np.geomspace(37.0, 8.0, 400), np.linspace(-7.9, 12.0, 4000)])
_SCORES = np.interp(np.arange(_LEAST, 60.0, _SPACING), 0.5 * _Z**2 + log_ndtr(_Z), _Z)


def gain(score: Floats, signed: bool) -> Floats:
    """Return the terms of docs/model.md (7.4) that depend on the z-score zeta of (7.3), in nats.

    These are zeta^2 / 2 + log Phi(zeta); or, where the slab is a whole normal (`signed`), zeta^2 /
    2.
    """
    half = 0.5 * score * score
    return half if signed else np.asarray(half + log_ndtr(score))


def score_for(needed: Floats, signed: bool) -> Floats:
    """Invert `gain`: return the z-score (if `signed`, its absolute value) with gain `needed`."""
    if signed:
        return np.sqrt(np.maximum(2.0 * needed, 0.0))
    place = np.clip((needed - _LEAST) / _SPACING, 0.0, len(_SCORES) - 2.0)
    index = place.astype(np.intp)
    below = _SCORES[index]
    return np.asarray(below + (place - index) * (_SCORES[index + 1] - below))


def gibbs_pass(products: Floats, before: Floats, bar: Floats, at: Floats, signed: bool) -> Floats:
    """Draw some weights of each chain one after the other, each by docs/model.md (7.5).

    Everything is in units in which the noise and a weight's conditional variance are 1. `products`
    (n_chains, n_steps, 1 + n_steps) are inner products of each weight's column: with the present
    error, and with minus each column; they are overwritten. The other arrays are (n_chains,
    n_steps): the present weights; `bar`, the z-score above which a weight is active, its random
    draw already made; `at`, the draw of an active weight, made beforehand: a uniform number on (0,
    1) that is mapped to the truncated normal, or, if `signed`, a standard normal number.
    """
    c, n_steps = before.shape
    products[:, :, 0] -= (products[:, :, 1:] @ before[:, :, None])[:, :, 0]
    products.reshape(c, -1)[:, 1 :: n_steps + 2] = 0.0  # a column with itself
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
