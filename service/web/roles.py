"""What a key may do: its role, and the one table of the role that each route needs."""

from fastapi import Request

from service.api.access import ADMIN, NO_KEY, READER, ROLES, WRITER
from service.api.runtime import service_of
from service.base.problems import Problem, ProblemCode
from service.web.full_tenants import refuse_full

SESSION = "/v1/sessions/{session_id}"
PERSONALIZER = "/personalizer/{version}"

# method and path template -> least role; a route that is not here needs an admin
NEEDED: dict[tuple[str, str], int] = {
    **dict.fromkeys(
        [
            ("GET", "/"),
            ("GET", "/dashboard/{name:path}"),
            ("GET", "/docs"),
            ("GET", "/healthz"),
            ("GET", "/readyz"),
        ],
        NO_KEY,
    ),
    **dict.fromkeys(
        [
            ("GET", "/metrics"),
            ("GET", "/dashboard/playground"),
            ("POST", "/dashboard/playground"),
            ("GET", "/v1/algorithms"),
            ("GET", "/v1/sessions"),
            ("GET", SESSION),
            ("GET", f"{SESSION}/changes"),
            ("GET", f"{SESSION}/credit"),
            ("GET", f"{SESSION}/decisions/{{event_id:text}}"),
            ("GET", f"{SESSION}/epochs"),
            ("GET", f"{SESSION}/estimate"),
            ("GET", f"{SESSION}/estimates"),
            ("GET", f"{SESSION}/events"),
            ("GET", f"{SESSION}/lift"),
            ("GET", f"{SESSION}/rounds"),
            ("GET", f"{SESSION}/shadow"),
            ("GET", f"{SESSION}/series"),
            ("GET", f"{SESSION}/trajectories"),
            ("POST", f"{SESSION}/rank"),  # writes nothing
            ("GET", f"{PERSONALIZER}/configurations/service"),
        ],
        READER,
    ),
    **dict.fromkeys(
        [
            ("POST", "/v1/batch"),
            ("POST", "/v1/sessions"),
            ("POST", "/v1/sessions/import"),
            ("PATCH", SESSION),
            ("DELETE", SESSION),
            ("POST", f"{SESSION}/copy"),
            ("DELETE", f"{SESSION}/trajectories/{{key:text}}"),
            ("POST", f"{SESSION}/decisions"),
            ("POST", f"{SESSION}/decisions/{{event_id:text}}/void"),
            ("POST", f"{SESSION}/fits"),
            ("POST", f"{SESSION}/history"),
            ("POST", f"{SESSION}/rewards"),
            ("POST", f"{PERSONALIZER}/rank"),
            ("POST", f"{PERSONALIZER}/events/{{event_id:text}}/activate"),
            ("POST", f"{PERSONALIZER}/events/{{event_id:text}}/reward"),
            ("PUT", f"{PERSONALIZER}/configurations/service"),
        ],
        WRITER,
    ),
    **dict.fromkeys(
        [
            ("GET", "/v1/audit"),
            ("GET", "/v1/keys"),
            ("POST", "/v1/keys"),
            ("DELETE", "/v1/keys/{key_id}"),
            ("POST", "/v1/keys/{key_id}/rotation"),
        ],
        ADMIN,
    ),
}


def refuse_role(rank: int, method: str, route: str) -> None:
    """Refuse a request whose key has too low a role.

    Parameters
    ----------
    rank : int
        Place of the key's role in `ROLES`.
    method, route : str
        Method and path template.

    Raises
    ------
    Problem
        403 forbidden.
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
