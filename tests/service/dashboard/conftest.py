"""A Chromium, whose pages show what the server at `url` of a test's module has."""

import shutil
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "chromium is missing"
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """A page on which an error, and a request to anywhere else, fails the test."""
    context = browser.new_context()
    context.set_default_timeout(120_000)  # of a busy machine
    opened = context.new_page()
    said: list[str] = []
    opened.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: said.append(f"error: {error}"))
    opened.on("request", lambda request: said.append(request.url) if left(request.url) else None)

    def left(asked: str) -> bool:
        return urlsplit(asked).scheme in ("http", "https") and not asked.startswith(origin[0])

    origin = [url]
    opened.origin = origin  # type: ignore[attr-defined]
    yield opened
    context.close()
    assert set(said) == getattr(opened, "expected", set())
