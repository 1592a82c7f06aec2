"""`make screenshots`: pictures of the page of the guide's examples, in docs/pages."""

import importlib
import inspect
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.server.dashboard import chromium
from benchmarks.server.processes import SERVE, servers

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = ("catalogue", "clickbait", "lift")
SIZE = {"width": 960, "height": 700}
SETTLED_MS = 3000  # until the page has drawn all
COLOURS = 96


def main(folder: Path) -> None:
    """Play each example, and save its page as a PNG of few colours."""
    folder.mkdir(exist_ok=True)
    sys.path.insert(0, str(DOCS / "examples"))
    with tempfile.TemporaryDirectory() as data:
        database = f"sqlite:///{Path(data, 'lhb.db')}"
        with servers(1, SERVE, LHB_DATABASE_URL=database) as [(url, _)], chromium() as browser:
            page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
            for name in EXAMPLES:
                play: Any = importlib.import_module(name).play
                algorithm = ["anytime"] if "algorithm" in inspect.signature(play).parameters else []
                play(url, name, *algorithm)
                page.goto(f"{url}/#/sessions/{name}")
                page.wait_for_timeout(SETTLED_MS)
                path = folder / f"{name}.png"
                page.screenshot(path=path, full_page=True)
                Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    main(DOCS / "pages")
