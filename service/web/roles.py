"""What a key may do: by its role, and by the role that each route needs."""

from fastapi import Request

from service.api.access import ADMIN, NEEDED, ROLES, WRITER
from service.api.runtime import service_of
from service.base.problems import Problem, ProblemCode
from service.web.full_tenants import refuse_full


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
