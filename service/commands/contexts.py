"""Contexts of a request as a session takes them: checked, and turned into numbers."""

from lhb_engine.history import Floats
from service.base.problems import Problem, ProblemCode
from service.session.names import NamedContexts, Names
from service.session.records import SessionRow

FEW_VALUES = 1000  # of contexts with names that are encoded in the event loop, in about 1 ms


def numbers_of(
    session: SessionRow, contexts: Floats | NamedContexts | None
) -> tuple[Floats | None, Names]:
    """Return contexts as numbers, and the names that the session then has; it is not changed.

    Raises 422: contexts of another width, a feature that no column takes, or names in a session
    whose rounds have none.
    """
    if isinstance(contexts, NamedContexts):
        if not session.names.are_given and session.n_rounds:
            detail = (
                "this session began with contexts that are lists of numbers: no column has a name"
            )
            raise Problem(ProblemCode.INVALID, detail, "contexts")
        return session.names.encode(contexts, session.dim)
    names = session.names
    if contexts is None:
        return None, names
    worked_out = names.worked_out
    width, n_given = contexts.shape[1], session.dim - len(worked_out)
    if width != n_given:
        shown = names.shown()
        named = f" ({shown})" if shown else ""
        less = " without those that it works out" if n_given < session.dim else ""
        detail = f"a context of this session has {n_given} numbers{less}{named}, not {width}"
        raise Problem(ProblemCode.WRONG_SHAPE, detail, "contexts")
    return names.whole(contexts) if worked_out else contexts, names


def arms_of(session: SessionRow, n_arms: int) -> tuple[str, ...] | None:
    """Return the session's own arm ids, for a request that gives none; 422 for another number."""
    arms = session.names.arms
    if arms is not None and len(arms) != n_arms:
        detail = f"this session has {len(arms)} arms, not {n_arms}: give arm_ids with other arms"
        raise Problem(ProblemCode.WRONG_SHAPE, detail, "contexts")
    return arms
