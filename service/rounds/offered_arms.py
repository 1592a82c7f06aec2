"""Arms as they are offered: with which contexts, and which feature each alone has."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.context_sets import latest_kept
from lhb_engine.history import FitWindow, Floats
from service.rounds.timeline import timeline_of
from service.session.fit_schedule import Watermark
from service.session.kept_contexts import unpack
from service.session.records import SessionRow
from service.storage.reader import ChosenArm, Reader

EARLY = 2000  # decisions, in which arms were tried
LAST = 200  # decisions that tell which id is at which place
NEWEST = 4  # kept sets, of which one may tell that an arm has several features
Arm = tuple[str | None, int | None]  # its id; without one its place among the contexts


def arm_of(one: ChosenArm) -> Arm:
    """Return the arm that a decision chose."""
    return (one.arm_id, None if one.arm_id is not None else one.arm)


def offered_arms(
    reader: Reader, session: SessionRow, first: int, chosen: Sequence[ChosenArm]
) -> dict[Arm, list[Floats]]:
    """Return the contexts that each arm is offered with in the kept sets, from a position on.

    Nothing where an arm's id does not go with its place. An agent chooses an arm when its context
    is good, and control does not: what was chosen of two arms that are alike differs.
    """
    ids = {one.arm: one.arm_id for one in chosen} | dict(enumerate(session.names.arms or ()))
    for one in reader.chosen(session.key, 1, EARLY):  # what is chosen no more
        ids.setdefault(one.arm, one.arm_id)
    if any(ids[one.arm] != one.arm_id for one in chosen):
        return {}
    offered: dict[Arm, list[Floats]] = defaultdict(list)
    places = latest_kept(session.n_rounds, session.kind.sizes.latest, first)
    for name, _, packed in reader.context_sets(session.key, places):
        if session.has(name):
            for i, context in enumerate(unpack(packed, session.dim)):
                arm_id = ids.get(i)
                offered[arm_id, i if arm_id is None else None].append(context)
    return offered


def feature_names(reader: Reader, session: SessionRow) -> Sequence[str]:
    """Return what features are called: as the session names them, or as the arms that have them.

    A feature is an arm's where no other arm ever has it, and the arm has no other.
    """
    if session.names.columns or not session.n_rounds:
        return session.names.columns
    newest = latest_kept(session.n_rounds, session.kind.sizes.latest)[-NEWEST:]
    for name, _, packed in reader.context_sets(session.key, newest):
        if session.has(name) and (np.count_nonzero(unpack(packed, session.dim), axis=1) > 1).any():
            return ()  # an arm has several features: thousands of decisions need not be read
    first = max(1, session.n_rounds - LAST + 1)
    chosen = list(reader.chosen(session.key, first, session.n_rounds))
    names: dict[int, list[str]] = defaultdict(list)
    for (arm_id, place), contexts in offered_arms(reader, session, 1, chosen).items():
        has = np.flatnonzero(np.any(contexts, axis=0)).tolist()
        for feature in has:
            names[feature] += [arm_id or f"arm {place}"] * len(has)
    if len(names) < session.dim or any(len(arms) > 1 for arms in names.values()):
        return ()
    return [names[feature][0] for feature in range(session.dim)]


def stored_sets(
    reader: Reader, session: SessionRow, agent: Agent, window: FitWindow, mark: Watermark
) -> dict[int, Floats]:
    """Return the kept sets of the latest decisions of a fit's rounds, by position."""
    if not agent.takes_sets:
        return {}
    if agent.prediction is not None:  # older rows may be dropped
        window = replace(window, first=max(window.first, agent.prediction.since_round))
    first, last = timeline_of(session).positions_of(window, mark)
    stored = reader.context_sets(session.key, latest_kept(last, agent.sizes.latest, first))
    kept = [(position, one) for name, position, one in stored if session.has(name)]
    return {position: unpack(one, session.dim) for position, one in kept}
