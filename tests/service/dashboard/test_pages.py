"""The dashboard's files: open to all, with a strict policy, and none forgotten."""

import pytest

from service.dashboard.pages import ASSETS, FOLDER
from tests.service.conftest import Serve


@pytest.mark.anyio
async def test_the_page_and_its_files_are_served_with_a_policy(serve: Serve) -> None:
    async with serve() as client:
        page = await client.get("/")
        assert page.status_code == 200
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert "unsafe" not in page.headers["content-security-policy"]
        script = await client.get("/dashboard/app.js")
        assert script.headers["content-type"].split(";")[0].endswith("/javascript")
        assert (await client.get("/dashboard/nothing.js")).status_code == 404


def test_every_file_is_served() -> None:
    found = {path.name for path in FOLDER.iterdir() if path.is_file()} - {"index.html"}
    assert found == {path.rpartition("/")[2] for path in ASSETS if "/vendor/" not in path}
