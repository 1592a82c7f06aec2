"""The contexts of all arms of a decision, where they are stored.

A decision's own row holds the chosen context. Off-policy evaluation needs those of all arms: a
session with `keep_contexts` stores them. What choices earn needs some of them: sessions of an agent
that says it store those of a few rounds (`lhb_engine.context_sets`).
"""

import zlib

import numpy as np

from lhb_engine.context_sets import is_kept
from lhb_engine.history import Floats
from service.base.problems import Problem, ProblemCode
from service.session.records import SessionRow

MOST_NUMBERS = 2**17  # of one decision that are kept: 1 MB before they are packed
FEW_NUMBERS = 2**12  # packed in the event loop, in a tenth of a millisecond; of a fit's sets
COMPRESSION = 1  # higher ones take several times as long for a tenth of the bytes


def pack(contexts: Floats, compressed: bool) -> bytes:
    """Return (K, dim) float64 as stored: zlib's format over the numbers, row after row.

    A session that keeps all contexts compresses. The few that its fits take are stored as they are:
    to compress 20 contexts of 10 numbers costs half of a decision.
    """
    numbers = np.ascontiguousarray(contexts, dtype=np.float64).tobytes()
    return zlib.compress(numbers, COMPRESSION if compressed else 0)


def unpack(packed: bytes, dim: int) -> Floats:
    """Return the (K, dim) array that was packed."""
    return np.frombuffer(zlib.decompress(packed)).reshape(-1, dim)


def may_be_kept(session: SessionRow, n_arms: int, position: int) -> bool:
    """Whether the contexts of all arms of a decision may be stored."""
    if session.keep_contexts:
        return True
    return 1 < n_arms <= FEW_NUMBERS / session.dim and is_kept(position, session.kind.sizes.latest)


def refuse_too_many(session: SessionRow, n_arms: int) -> None:
    """Raise a 422 if a session that keeps all contexts is asked to keep too many numbers."""
    if session.keep_contexts and n_arms * session.dim > MOST_NUMBERS:
        detail = (
            f"{n_arms} contexts of {session.dim} numbers: a session with keep_contexts takes at "
            f"most {MOST_NUMBERS} numbers a decision"
        )
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, "contexts")
