"""The routes of the dashboard: its page at /, and the page's scripts and styles."""

from fastapi import APIRouter, Request, Response

from service.dashboard.assets import ASSETS, PAGE, media_type
from service.problems import Problem, ProblemCode

router = APIRouter(include_in_schema=False)
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


@router.get("/")
async def get_page() -> Response:
    """Return the dashboard."""
    return Response(PAGE, headers=HEADERS, media_type="text/html")


@router.get("/dashboard/{name:path}")
async def get_asset(name: str, request: Request) -> Response:
    """Return a script or a style of the dashboard."""
    path = f"/dashboard/{name}"
    if path not in ASSETS:
        raise Problem(ProblemCode.UNKNOWN_ROUTE, f"the dashboard has no file {name!r}")
    return Response(ASSETS[path], headers=HEADERS, media_type=media_type(path))
