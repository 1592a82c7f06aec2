"""What a key may do: its role, and the one table of the role that each route needs."""

from fastapi import Request

from service.api.access import ADMIN, NO_KEY, READER, ROLES, WRITER
from service.api.runtime import service_of
from service.base.problems import Problem, ProblemCode
from service.web.full_tenants import refuse_full

SESSION = "/v1/sessions/{session_id}"
PERSONALIZER = "/personalizer/{version}"

# by least role, paths by method; a route that is not here needs an admin
ROUTES: dict[int, dict[str, list[str]]] = {
    NO_KEY: {"GET": ["/", "/dashboard/{name:path}", "/docs", "/healthz", "/readyz"]},
    READER: {
        "GET": [
            "/metrics",
            "/dashboard/playground",
            "/v1/algorithms",
            "/v1/sessions",
            SESSION,
            f"{SESSION}/changes",
            f"{SESSION}/credit",
            f"{SESSION}/decisions/{{event_id:text}}",
            f"{SESSION}/epochs",
            f"{SESSION}/estimate",
            f"{SESSION}/estimates",
            f"{SESSION}/events",
            f"{SESSION}/lift",
            f"{SESSION}/rounds",
            f"{SESSION}/shadow",
            f"{SESSION}/series",
            f"{SESSION}/trajectories",
            f"{PERSONALIZER}/configurations/service",
        ],
        "POST": ["/dashboard/playground", f"{SESSION}/rank"],  # these write nothing
    },
    WRITER: {
        "POST": [
            "/v1/batch",
            "/v1/sessions",
            "/v1/sessions/import",
            f"{SESSION}/copy",
            f"{SESSION}/decisions",
            f"{SESSION}/decisions/{{event_id:text}}/void",
            f"{SESSION}/fits",
            f"{SESSION}/history",
            f"{SESSION}/rewards",
            f"{PERSONALIZER}/rank",
            f"{PERSONALIZER}/events/{{event_id:text}}/activate",
            f"{PERSONALIZER}/events/{{event_id:text}}/reward",
        ],
        "PATCH": [SESSION],
        "PUT": [f"{PERSONALIZER}/configurations/service"],
        "DELETE": [
            SESSION,
            f"{SESSION}/features/{{name:text}}",
            f"{SESSION}/trajectories/{{key:text}}",
        ],
    },
    ADMIN: {
        "GET": ["/v1/audit", "/v1/keys"],
        "POST": ["/v1/keys", "/v1/keys/{key_id}/rotation"],
        "DELETE": ["/v1/keys/{key_id}"],
    },
}
NEEDED = {
    (method, path): role
    for role, methods in ROUTES.items()
    for method, paths in methods.items()
    for path in paths
}


def refuse_role(rank: int, method: str, route: str) -> None:
    """Raise a 403 forbidden if a key's role is too low for a method and path template.

    `rank` is the role's place in `ROLES`.
    """
    needed = NEEDED.get((method, route), ADMIN)
    if rank < needed:
        role = "no key" if rank < 0 else f"a key with the role {ROLES[rank]!r}"
        detail = f"this needs a key with the role {ROLES[needed]!r}, and came with {role}"
        raise Problem(ProblemCode.FORBIDDEN, detail, "authorization")


async def refuse_by_role(request: Request) -> None:
    """Refuse a request by `refuse_role`, and what stores more by `refuse_full`.

    Every FastAPI route depends on this.
    """
    access, route = request.scope["lhb.access"], request.scope["route"].path
    refuse_role(access.rank, request.method, route)
    if request.method == "POST" and NEEDED.get((request.method, route)) == WRITER:
        refuse_full(service_of(request), access.tenant)
