"""What a rank request becomes, and what its decision is answered as."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from lhb_engine.history import Floats
from service.api.request_bodies import DecisionBody
from service.base.loop_slices import SlicedWork
from service.base.problems import Problem, ProblemCode
from service.personalizer.bodies import RANK
from service.personalizer.features import Features, hashed_contexts, read_features
from service.session.option_changes import at_revision, changes_of
from service.session.records import DecisionRow, SessionRow
from service.writer.agent_cache import build_agent


class Asked(NamedTuple):
    """A rank request as checked: the ids of all actions, of those to choose from, and so on."""

    ids: list[str]
    open_ids: list[str]
    contexts: Floats
    event_id: str
    is_deferred: bool

    def decision_body(
        self, trajectory: str, forced: int | None = None, default: int | None = None
    ) -> DecisionBody:
        """Return the decision that this request asks for, as POST .../decisions takes it."""
        body: DecisionBody = {
            "contexts": encoded(self.contexts),
            "arm_ids": self.open_ids,
            "event_id": self.event_id,
            "trajectory": trajectory,
        }
        if forced is not None:
            body["forced_arm"] = forced
        if default is not None:
            body["default_arm"] = default
        return body


def encoded(contexts: Floats) -> Any:
    """Return contexts as a decision's body holds them, already decoded."""
    data = contexts.astype("<f8").tobytes()
    return {"dtype": "float64", "shape": list(contexts.shape), "data": data}


def read_rank(body: bytes, dim: int) -> SlicedWork[Asked]:
    """Parse and check a rank request, and hash its features into `dim` numbers an arm.

    Raises
    ------
    Problem
        400, 409 or 422 naming the field.
    """
    asked = RANK.read(body)
    ids = [action["id"] for action in asked["actions"]]
    seen: set[str] = set()
    for i, name in enumerate(ids):
        if name in seen:
            detail = f"the id {name!r} occurs twice"
            raise Problem(ProblemCode.DUPLICATE_ARM_IDS, detail, f"actions[{i}].id")
        seen.add(name)
    excluded = set(asked.get("excludedActions") or ())
    open_ids = [name for name in ids if name not in excluded]
    if not open_ids:
        raise Problem(ProblemCode.NO_ARMS, "every action is excluded", "excludedActions")
    actions, context, arm = Features("action"), Features("context"), 0
    for i, action in enumerate(asked["actions"]):
        if ids[i] not in excluded:
            features = read_features(action["features"], f"actions[{i}].features")
            if not (yield from actions.add(features, arm)):
                yield from actions.add([(f"id={ids[i]}", 1.0)], arm)
            arm += 1
    given = asked.get("contextFeatures") or []
    yield from context.add(read_features(given, "contextFeatures"))
    contexts = hashed_contexts(actions, context, arm, dim)
    event_id = asked.get("eventId") or uuid4().hex
    return Asked(ids, open_ids, contexts, event_id, asked.get("deferActivation") is True)


def rank_answer(asked: Asked, decision: DecisionRow, session: SessionRow) -> dict[str, Any]:
    """Return Personalizer's answer: the chosen action first, the others by score.

    An excluded action keeps its place in the request, with probability 0. Probabilities are those
    of the agent; where it did not play, the others keep their order and none has a probability.
    """
    scores = np.frombuffer(decision.scores)
    chances: Sequence[float | None] = [None] * len(scores)
    others: list[int] = list(range(len(scores)))
    if decision.propensity is not None and decision.played_by in (None, "agent"):
        then = at_revision(session, changes_of(session.changes).revision_of(decision.position))
        chances = build_agent(then, None).probabilities(scores).tolist()
        others = np.argsort(-scores, kind="stable").tolist()
    assert decision.arm is not None
    order = [decision.arm, *others]
    ranked = iter(dict.fromkeys(order))
    is_open = set(asked.open_ids)
    return {
        "ranking": [
            _ranked(ranked, asked, chances) if name in is_open else {"id": name, "probability": 0.0}
            for name in asked.ids
        ],
        "eventId": asked.event_id,
        "rewardActionId": asked.open_ids[decision.arm],
    }


def _ranked(
    ranked: Iterator[int], asked: Asked, chances: Sequence[float | None]
) -> dict[str, object]:
    arm = next(ranked)
    return {"id": asked.open_ids[arm], "probability": chances[arm]}
