"""POST /v1/sessions/{id}/rank: score arms without taking a decision."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from clients.sdk.answers import RankAnswer
from lhb_engine.history import Floats
from service.api.access import READER
from service.api.body_parsing import RANK
from service.api.context_arrays import read_contexts
from service.api.decisions import check_arms
from service.api.routes import SESSION, Call, Routes
from service.base.loop_slices import SlicedWork
from service.commands.contexts import arms_of, numbers_of
from service.rounds.timeline import timeline_of
from service.rounds.trajectory_theta import own_agent
from service.session.names import NamedContexts
from service.session.records import SessionRow
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent

router = Routes(SESSION, tags=["estimates"])


@router.serve(
    "POST /rank", "Score arms without taking a decision", RankAnswer, 409, body=RANK, role=READER
)
async def post_rank(call: Call, session_id: str) -> dict[str, Any]:
    """Score arms as the trajectory's next decision would.

    A tie for the first place is broken as that decision would break it; other ties are in the order
    of the arms. Nothing is written and no round begins.

    A decision of a session with refit "blocking" waits for a fit that is due (`fit_due` of the
    session) and scores by what it installs; a ranking does not wait. `model_version` tells.
    """
    service, body = call.service, await call.request.body()
    choices, trajectory, arm_ids = await service.parsed(call.tenant, parse_rank, body)
    service.limits.refuse_arms(len(choices))

    def answer(reader: Reader, session: SessionRow) -> dict[str, Any]:
        contexts, _ = numbers_of(session, choices)
        assert contexts is not None
        arms: Sequence[str] | None = arm_ids
        if arms is None:
            arms = arms_of(session, len(contexts))
        agent = build_agent(session, reader.agent_state(session.key))
        row = reader.trajectory((*session.key, trajectory))
        now = service.writer.clock()
        agent, _ = own_agent(lambda: reader, session, agent, trajectory, row, now)
        round = 1 if row is None else row.n_rounds + 1
        position = session.n_rounds + 1
        draw = timeline_of(session).draw(session.seed, trajectory, round, position, now)
        scores = agent.ranking(contexts, draw)
        arm = agent.choose_by(scores, draw).arm
        if scores[arm] < scores.max():  # drawn for exploration: rank a best arm first instead
            arm = int(scores.argmax())
        ranking = np.argsort(-scores, kind="stable").tolist()
        ranking.remove(arm)
        ranking.insert(0, arm)
        return {
            "scores": scores.tolist(),
            "ranking": ranking,
            "arm_ids": None if arms is None else [arms[arm] for arm in ranking],
            "model_version": session.model_version,
            "deciding": agent.deciding,
        }

    return await call.look(session_id, answer)


def parse_rank(body: bytes) -> SlicedWork[tuple[Floats | NamedContexts, str, list[str] | None]]:
    """Parse the body of a ranking: its contexts, trajectory and arm ids."""
    fields = RANK.read(body)
    contexts = yield from read_contexts(fields["contexts"])
    arm_ids = fields.get("arm_ids")
    check_arms(len(contexts), arm_ids)
    return contexts, fields.get("trajectory") or "", arm_ids
