"""POST /v1/sessions/{id}/history: append logged rounds to a session."""

from fastapi import APIRouter, Request, Response

from service.api.body_parsing import HISTORY
from service.api.context_arrays import read_contexts
from service.api.documentation import documented, takes
from service.api.response_types import HistoryAnswer
from service.api.sessions import json_response
from service.commands.append_history import ImportHistory
from service.commands.decisions import body_digest
from service.problems import Problem, ProblemCode
from service.records import SERVER_EVENT
from service.runtime import service_of, tenant_of

router = APIRouter(tags=["sessions"])
MOST = 10_000  # rounds in one call; a call is one transaction, which others wait for


@router.post(
    "/v1/sessions/{session_id}/history",
    status_code=201,
    summary="Start warm from a log",
    responses=documented({201: HistoryAnswer, 200: HistoryAnswer}, 404, 409),
    openapi_extra=takes(HISTORY),
)
async def post_history(session_id: str, request: Request) -> Response:
    """Append rounds that were decided elsewhere, at most 10 000 per call, all or nothing.

    They are stored as forced decisions. Fits that they make due run in the background.
    """
    service = service_of(request)
    asked = HISTORY.read(await request.body())
    contexts = read_contexts(asked["contexts"])
    n = len(contexts)
    if n > MOST:
        raise Problem(ProblemCode.OUT_OF_RANGE, f"a call takes at most {MOST} rounds", "contexts")
    rewards = asked.get("rewards", [None] * n)
    if len(rewards) != n:
        raise Problem(ProblemCode.WRONG_SHAPE, f"{len(rewards)} rewards for {n} rounds", "rewards")
    rewards = [None if value is None else value + 0.0 for value in rewards]
    import_id = asked.get("import_id")
    if import_id is not None and import_id.startswith(SERVER_EVENT):
        detail = f"ids that begin with {SERVER_EVENT} are the server's"
        raise Problem(ProblemCode.INVALID, detail, "import_id")
    command = ImportHistory(
        (tenant_of(request), session_id),
        asked.get("trajectory") or "",
        contexts,
        rewards,
        service.agents,
        import_id,
        None if import_id is None else body_digest(contexts, rewards),
    )
    done = await service.writer.submit(command)
    answer = {
        "first_round": done.first_round,
        "last_round": done.last_round,
        "rewards": done.n_rewards,
    }
    return json_response(answer, 201 if done.is_new else 200)
