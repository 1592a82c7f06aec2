"""The routes that are called all the time, served without a framework.

FastAPI's routing, request and response objects cost more than everything else that a decision
takes. Its routes for the same paths stay: they document, and answer where no hot route matches.
"""

from collections.abc import Awaitable, Callable

from starlette.types import Scope

from service.api import batch, decisions, rewards
from service.runtime import Service

Handler = Callable[[Service, str, str, bytes], Awaitable[tuple[int, bytes]]]
BATCH_ROUTE = "/v1/batch"
HANDLERS: dict[str, tuple[Handler, str]] = {
    "decisions": (decisions.decide, "/v1/sessions/{session_id}/decisions"),
    "rewards": (rewards.receive, "/v1/sessions/{session_id}/rewards"),
}


def find_handler(scope: Scope) -> tuple[Handler, str, str] | None:
    """Return handler, route and session id of a hot request; None for all others."""
    if scope["method"] != "POST":
        return None
    path = scope["path"]
    if path == BATCH_ROUTE:
        return batch.run_batch, BATCH_ROUTE, ""
    parts = path.split("/")
    if len(parts) != 5 or parts[2] != "sessions" or parts[1] != "v1" or parts[0]:
        return None
    found = HANDLERS.get(parts[4])
    return None if found is None else (*found, parts[3])
