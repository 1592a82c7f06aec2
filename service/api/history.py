"""POST /v1/sessions/{id}/history: append logged rounds to a session."""

from fastapi import Request, Response

from clients.sdk.answers import HistoryAnswer
from service.api.body_parsing import HISTORY
from service.api.documentation import SESSION, Routes
from service.api.history_body import read_history
from service.api.runtime import service_of, tenant_of
from service.api.sessions import json_response
from service.commands.append_history import Log, append_history
from service.transfer.parsing_processes import PARSED_HERE_BYTES

router = Routes(SESSION, tags=["sessions"])


@router.serve("POST /history", "Append logged rounds", HistoryAnswer, 201, 200, 409, body=HISTORY)
async def post_history(session_id: str, request: Request) -> Response:
    """Append rounds that were decided elsewhere, at most 10 000 per call, all or nothing.

    They are stored as forced decisions. Fits that they make due run in the background. While a long
    log is being appended, the session takes nothing else (503 `history_pending`).
    """
    service, body = service_of(request), await request.body()
    if len(body) > PARSED_HERE_BYTES:
        asked = await service.parsing.run(read_history, body)
    else:
        asked = read_history(body)
    log = Log((tenant_of(request), session_id), **asked, limits=service.limits)
    done = await service.slices.run(append_history(log, service.agents, service.abandon))
    answer = {
        "first_round": done.first_round,
        "last_round": done.last_round,
        "rewards": done.n_rewards,
    }
    return json_response(answer, 201 if done.is_new else 200)
