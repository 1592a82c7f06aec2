"""The dashboard's files, read once."""

from importlib.resources import files
from mimetypes import guess_type

FOLDER = files("service.dashboard") / "static"
NAMES = (
    *("app.js", "api.js", "dom.js", "sessions.js", "session.js", "compare.js", "playground.js"),
    *("besides.js", "credit.js", "data.js", "lift.js", "plots.js", "units.js", "style.css"),
    *("vendor/uplot.js", "vendor/uplot.css"),
)
ASSETS = {f"/dashboard/{name}": (FOLDER / name).read_bytes() for name in NAMES}
ASSET_PATHS = frozenset(ASSETS)
PAGE = (FOLDER / "index.html").read_bytes()


def media_type(path: str) -> str:
    """Return the media type of an asset."""
    return guess_type(path)[0] or "application/octet-stream"
