"""The hot routes: decisions, rewards and batches, which bypass FastAPI.

FastAPI's routing, request and response objects cost more than the rest of a decision. FastAPI has
routes for the same paths too: they put the endpoints into the OpenAPI schema, and they serve
requests that no hot route matches.
"""

from collections.abc import Awaitable, Callable

from starlette.types import Scope

from service.api import batch, decisions, rewards
from service.api.runtime import Service

Handler = Callable[[Service, str, str, bytes], Awaitable[tuple[int, bytes]]]
BATCH_ROUTE = "/v1/batch"
HANDLERS: dict[str, tuple[Handler, str]] = {
    "decisions": (decisions.decide, "/v1/sessions/{session_id}/decisions"),
    "rewards": (rewards.receive, "/v1/sessions/{session_id}/rewards"),
}


def find_handler(scope: Scope) -> tuple[Handler, str, str] | None:
    """Return the handler, path template and session id ("" of a batch) of a hot route, or None."""
    if scope["method"] != "POST":
        return None
    path = scope["path"]
    if path == BATCH_ROUTE:
        return batch.run_batch, BATCH_ROUTE, ""
    parts = path.split("/")
    if len(parts) != 5 or parts[2] != "sessions" or parts[1] != "v1" or parts[4] not in HANDLERS:
        return None
    return *HANDLERS[parts[4]], parts[3]
