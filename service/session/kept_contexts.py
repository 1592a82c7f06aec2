"""The contexts of all arms of a decision, as a session with `keep_contexts` stores them.

A decision's own row holds the chosen context only: fits need no other. Off-policy evaluation does.
"""

import zlib

import numpy as np

from lhb_engine.history import Floats
from service.base.problems import Problem, ProblemCode
from service.session.records import SessionRow

MOST_NUMBERS = 2**17  # of one decision that are kept: 1 MB before they are packed
FEW_NUMBERS = 2**12  # packed in the event loop, in a tenth of a millisecond
LEVEL = 1  # higher ones take several times as long for a tenth of the bytes


def pack(contexts: Floats) -> bytes:
    """Return (K, dim) float64 as stored: zlib's format over the numbers, row after row."""
    return zlib.compress(np.ascontiguousarray(contexts, dtype=np.float64).tobytes(), LEVEL)


def unpack(packed: bytes, dim: int) -> Floats:
    """Return the (K, dim) array that was packed."""
    return np.frombuffer(zlib.decompress(packed)).reshape(-1, dim)


def refuse_too_many(session: SessionRow, n_arms: int) -> None:
    """Raise a 422 if a session that keeps all contexts is asked to keep too many numbers."""
    if session.keep_contexts and n_arms * session.dim > MOST_NUMBERS:
        detail = (
            f"{n_arms} contexts of {session.dim} numbers: a session with keep_contexts takes at "
            f"most {MOST_NUMBERS} numbers a decision"
        )
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, "contexts")
