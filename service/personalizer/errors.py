"""Problems in the shape that Personalizer's callers know: an object `error` with a code."""

from typing import Any

from pydantic_core import to_json

from service.base.problems import MEDIA_TYPE, Problem

PREFIX = "/personalizer/"


def is_personalizer(path: str) -> bool:
    """Return whether a path is one of Personalizer's."""
    return path.startswith(PREFIX)


def problem_answer(problem: Problem, path: str) -> tuple[int, bytes, str]:
    """Return status, body and content type of a problem, as the callers of a path know it."""
    if not is_personalizer(path):
        return problem.status, problem.body(), MEDIA_TYPE
    status = 400 if problem.status == 422 else problem.status
    failed = "InternalServerError" if status >= 500 else "BadRequest"
    error: dict[str, Any] = {
        "code": "ResourceNotFound" if status == 404 else failed,
        "message": problem.detail,
        "target": "eventId" if problem.field == "event_id" else problem.field,
        "innerError": {"code": problem.code.value},
    }
    return status, to_json({"error": error}), "application/json"
