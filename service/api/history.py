"""POST /v1/sessions/{id}/history: append logged rounds to a session."""

from typing import Any

from clients.sdk.answers import HistoryAnswer
from service.api.answer_models import members_of
from service.api.body_parsing import HISTORY
from service.api.context_arrays import read_contexts
from service.api.routes import SESSION, Call, Routes
from service.base.loop_slices import run_at_once
from service.base.problems import Problem, ProblemCode
from service.commands.append_history import Log, append_history
from service.commands.decisions import body_digest
from service.session.records import SERVER_EVENT

MAX_ROUNDS = 10_000  # rounds in one call
CALLED = {"rewards": "rewards", "arm_ids": "arms", "at": "times"}  # others are numbers
router = Routes(SESSION, tags=["sessions"])


@router.serve("POST /history", "Append logged rounds", HistoryAnswer, 201, 200, 409, body=HISTORY)
async def post_history(call: Call, session_id: str) -> tuple[dict[str, int], int]:
    """Append rounds that were decided elsewhere, at most 10 000 per call, all or nothing.

    Rounds are stored as forced decisions. From 20 rewards on, a fit of all rounds follows in the
    background. While a long log is being appended, the session takes nothing else (503
    `history_pending`).
    """
    service, body = call.service, await call.request.body()
    if len(body) > service.parsed_here_bytes:
        members = await service.parsing.run(read_history, body)
    else:
        members = read_history(body)
    log = Log((call.tenant, session_id), **members, limits=service.limits)
    done = await service.slices.run(append_history(log, service.agents, service.abandon))
    answer = {**members_of(HistoryAnswer, done), "rewards": done.n_rewards}
    return answer, 201 if done.is_new else 200


def read_history(body: bytes) -> dict[str, Any]:
    """Parse and check a body; return the members of a `Log`. A process does it for a large one."""
    fields = HISTORY.read(body)
    contexts = run_at_once(read_contexts(fields["contexts"]))
    n = len(contexts)
    if n > MAX_ROUNDS:
        detail = f"a call takes at most {MAX_ROUNDS} rounds"
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, "contexts")
    rewards = fields.get("rewards", [None] * n)
    arm_ids, starts, times = fields.get("arm_ids"), fields.get("at"), None
    covariates = fields.get("covariates") or {}
    of_rounds: dict[str, Any] = {"rewards": rewards, "arm_ids": arm_ids, "at": starts}
    of_rounds |= {f"covariates.{name}": told for name, told in covariates.items()}
    for field, values in of_rounds.items():
        if values is not None and len(values) != n:
            detail = f"{len(values)} {CALLED.get(field, 'numbers')} for {n} rounds"
            raise Problem(ProblemCode.WRONG_SHAPE, detail, field)
    if starts is not None:
        times = [at.timestamp() for at in starts]
        back = next((i for i in range(1, n) if times[i] < times[i - 1]), None)
        if back is not None:
            detail = "it is before the round before it"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, f"at[{back}]")
    rewards = [None if value is None else value + 0.0 for value in rewards]
    import_id = fields.get("import_id")
    if import_id is not None and import_id.startswith(SERVER_EVENT):
        detail = f"ids that begin with {SERVER_EVENT} are reserved for the server"
        raise Problem(ProblemCode.INVALID, detail, "import_id")
    beside = rewards, sorted(covariates.items()), arm_ids, times
    return {
        "trajectory": fields.get("trajectory") or "",
        "contexts": contexts,
        "rewards": rewards,
        "import_id": import_id,
        "covariates": covariates,
        "arm_ids": arm_ids or [None] * n,
        "times": times,
        "digest": None if import_id is None else body_digest(contexts, *beside),
    }
