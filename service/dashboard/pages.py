"""The routes of the dashboard: its page at /, the page's files, and the playground."""

from mimetypes import guess_type
from pathlib import Path
from typing import Any

from fastapi import Response

from service.api.access import NO_KEY, READER
from service.api.body_parsing import BodyParser
from service.api.routes import Call, Routes
from service.base.playground import PlaygroundBody, limits
from service.base.problems import Problem, ProblemCode

FOLDER = Path(__file__).parent / "static"
ASSETS = {
    f"/dashboard/{path.relative_to(FOLDER).as_posix()}": path.read_bytes()
    for path in FOLDER.rglob("*")
    if path.suffix in (".js", ".css")
}
ASSET_PATHS = frozenset(ASSETS)
PAGE = (FOLDER / "index.html").read_bytes()
router = Routes()
PLAYED = BodyParser(PlaygroundBody)
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


@router.serve("GET /", role=NO_KEY)
async def get_page(_: Call) -> Response:
    """Return the dashboard."""
    return Response(PAGE, headers=HEADERS, media_type="text/html")


@router.serve("GET /dashboard/playground")
async def get_playground(call: Call) -> dict[str, Any]:
    """Say whether the playground is open, and its limits."""
    return {"is_open": call.service.settings.playground, "limits": limits()}


@router.serve("POST /dashboard/playground", role=READER)
async def post_playground(call: Call) -> dict[str, Any]:
    """Play a small world; 404 where the playground is closed."""
    if not call.service.settings.playground:
        raise Problem(
            ProblemCode.UNKNOWN_ROUTE, "the playground is closed; LHB_PLAYGROUND opens it"
        )
    return await call.service.playground.run(PLAYED.read(await call.request.body()))


@router.serve("GET /dashboard/{name:path}", role=NO_KEY)
async def get_asset(_: Call, name: str) -> Response:
    """Return a script or a style of the dashboard."""
    path = f"/dashboard/{name}"
    if path not in ASSETS:
        raise Problem(ProblemCode.UNKNOWN_ROUTE, f"the dashboard has no file {name!r}")
    return Response(ASSETS[path], headers=HEADERS, media_type=guess_type(path)[0])
