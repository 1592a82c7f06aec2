"""The versions of Personalizer's contract that are served. Their rank and events are the same."""

from typing import Annotated

from fastapi import Depends

from service.base.problems import Problem, ProblemCode

PATH = "/personalizer/{version}"
VERSIONS = ("v1.0", "v1.1-preview", *(f"v1.1-preview.{n}" for n in (1, 2, 3)))


def refuse_version(version: str) -> str:
    """Return a version that is served; raise a 404 for another."""
    if version not in VERSIONS:
        detail = f"there is no version {version!r}; served are {', '.join(VERSIONS)}"
        raise Problem(ProblemCode.UNKNOWN_ROUTE, detail)
    return version


Version = Annotated[str, Depends(refuse_version)]
