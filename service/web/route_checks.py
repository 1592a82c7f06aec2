"""What every route checks first: the role of the key, and that it takes the query parameters."""

from urllib.parse import parse_qsl

from fastapi import Request
from starlette.types import Scope

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


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise a 422 for a parameter that the endpoint does not declare.

    Every FastAPI route depends on this.
    """
    names = {field.alias for field in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in names:
            raise _unknown(name)


def refuse_parameters(scope: Scope) -> None:
    """Raise a 422 for any query parameter: hot routes take none."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if pairs:
        raise _unknown(pairs[0][0])


def _unknown(name: str) -> Problem:
    detail = f"this route takes no query parameter {name!r}"
    return Problem(ProblemCode.UNKNOWN_PARAMETER, detail, name)
