"""What a z-score says for a lag's being active, its weight integrated out, and the way back."""

import numpy as np
from scipy.special import log_ndtr

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
    """The z-score (its size, if `signed`) from which the gain is more than `needed`, any shape."""
    if signed:
        return np.sqrt(np.maximum(2.0 * needed, 0.0))
    place = np.clip((needed - _LEAST) / _SPACING, 0.0, len(_SCORES) - 2.0)
    index = place.astype(np.intp)
    below = _SCORES[index]
    return np.asarray(below + (place - index) * (_SCORES[index + 1] - below))
