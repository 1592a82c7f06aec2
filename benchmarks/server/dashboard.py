"""`lhb bench dashboard`: how long a browser takes to open the pages.

The browser is a real Chromium, with an empty cache for each visit. A page counts as shown when what
it is for is visible, and as whole when the last request of its own is answered.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import Browser, Request, sync_playwright

from benchmarks.server.processes import SERVE, servers
from clients.sdk.client import Client
from clients.sdk.session import Session

DIM, HORIZON = 5, 20
SMALL_ROUNDS = 200  # of each session in the list: enough for an estimate and a curve
LOG_ROUNDS = 10_000  # of one request
QUIET_SECONDS = 1.0  # without a request: the page is whole
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


def run(n_sessions: int, n_rounds: int, n_visits: int) -> dict[str, Any]:
    """Return the seconds of `n_visits` to the list, and to the session of `n_rounds` rounds."""
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder, 'lhb.db')}"
        with servers(1, SERVE, LHB_DATABASE_URL=database) as [(url, _)]:
            with Client(url) as client:
                long = fill(client, url, n_sessions, n_rounds)
            pages = {
                "list": (f"{url}/", f"text={n_sessions} sessions"),
                "session": (f"{url}/#/sessions/{long}", "[aria-label='Credit by feature']"),
            }
            with chromium() as browser:
                visits = {
                    name: [visit(browser, *page) for _ in range(n_visits)]
                    for name, page in pages.items()
                }
    return {
        "settings": {"sessions": n_sessions, "rounds": n_rounds, "visits": n_visits},
        "median": {
            name: {key: round(median(one[key] for one in of), 3) for key in of[0]}
            for name, of in visits.items()
        },
        "visits": visits,
    }


def fill(client: Client, url: str, n_sessions: int, n_rounds: int) -> str:
    """Make one long session, and copies of a small one; return the long one's id."""
    rng = np.random.default_rng(1)
    long = client.create_session("long", dim=DIM, horizon=HORIZON, seed=1)
    for _ in range(0, n_rounds, LOG_ROUNDS):
        _log(long, min(LOG_ROUNDS, n_rounds), rng)
    small = client.create_session("small", dim=DIM, horizon=HORIZON, seed=2)
    _log(small, SMALL_ROUNDS, rng)
    for session in (small, long):
        while session.read()["fit_due"]:
            time.sleep(0.2)
        if session.estimate()["status"] != "ok":
            raise SystemExit("nothing was learned: the pages would be empty")
    with httpx.Client(base_url=f"{url}/v1/sessions", timeout=60) as http:
        exported = http.get(f"/{small.id}/events")
        headers = {"content-type": exported.headers["content-type"]}
        for i in range(n_sessions - 2):
            path = f"/import?name=copy-{i}"
            http.post(path, content=exported.content, headers=headers).raise_for_status()
    return long.id


def _log(session: Session, n_rounds: int, rng: np.random.Generator) -> None:
    """Append rounds whose reward is half their first feature, half that of two rounds before."""
    contexts = rng.uniform(-1, 1, (n_rounds, DIM))
    rewards = 0.5 * contexts[:, 0] + 0.1 * rng.normal(size=n_rounds)
    rewards[2:] += 0.5 * contexts[:-2, 0]
    session.history(contexts, rewards.tolist())


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium."""
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def visit(browser: Browser, url: str, wanted: str) -> dict[str, float]:
    """Open a page in a new context, and return the seconds until it is shown and whole."""
    with browser.new_context() as context:
        page = context.new_page()
        finished: list[float] = []

        def on_finished(_: Request) -> None:
            finished.append(time.perf_counter())

        page.on("requestfinished", on_finished)
        began = time.perf_counter()
        page.goto(url, wait_until="commit")
        page.locator(wanted).first.wait_for()
        shown = time.perf_counter()
        while time.perf_counter() < max(shown, finished[-1]) + QUIET_SECONDS:
            page.wait_for_timeout(100)
        whole = max(shown, finished[-1])
    return {"shown_seconds": shown - began, "whole_seconds": whole - began}
