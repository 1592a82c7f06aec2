"""What a request is answered whose handling raised an error: problem+json."""

from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service.base.field_types import field_name
from service.base.problems import MEDIA_TYPE, Problem, ProblemCode
from service.personalizer.errors import problem_answer


async def _problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    request.scope["lhb.problem"] = problem  # it is counted, and of a 5xx, its cause is logged
    status, body, kind = problem_answer(problem, request.scope["path"])
    return Response(body, status, problem.headers(), kind)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: ProblemCode.UNKNOWN_ROUTE, 405: ProblemCode.METHOD_NOT_ALLOWED}
    problem = Problem(codes.get(error.status_code, ProblemCode.HTTP_ERROR), str(error.detail))
    problem.status = error.status_code
    request.scope["lhb.problem"] = problem
    headers = {**(error.headers or {})}
    status, body, kind = problem_answer(problem, request.scope["path"])
    return Response(body, status, headers, kind)


async def _parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"code": ProblemCode.INVALID, "field": field_name(tuple(e["loc"][1:])), "detail": e["msg"]}
        for e in error.errors()
    ]
    top = errors[0]
    problem = Problem(ProblemCode.INVALID, f"{top['field']}: {top['detail']}", top["field"])
    request.scope["lhb.problem"] = problem
    return Response(problem.body(), problem.status, media_type=MEDIA_TYPE)


ERROR_ANSWERS: dict[Any, Any] = {
    Problem: _problem,
    HTTPException: _http,
    RequestValidationError: _parameters,
}
