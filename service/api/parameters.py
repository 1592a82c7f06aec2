"""Query parameters: those that a route does not take are refused, not ignored."""

from urllib.parse import parse_qsl

from fastapi import Request
from starlette.types import Scope

from service.problems import Problem, ProblemCode


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse parameters that the route's endpoint does not declare; a dependency of every route."""
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in known:
            raise _unknown(name)


def refuse_parameters(scope: Scope) -> None:
    """Refuse any parameter at all."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if pairs:
        raise _unknown(pairs[0][0])


def _unknown(name: str) -> Problem:
    detail = f"this route takes no query parameter {name!r}"
    return Problem(ProblemCode.UNKNOWN_PARAMETER, detail, name)
