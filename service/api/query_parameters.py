"""Refusal of query parameters that a route does not take."""

from urllib.parse import parse_qsl

from fastapi import Request
from starlette.types import Scope

from service.base.problems import Problem, ProblemCode


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
