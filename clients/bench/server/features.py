"""`lhb bench serve --everything-on`: what each feature of operation adds to a decision.

Each feature is switched on alone, then all together, against a server with none of them. Servers
take turns, each on a new SQLite file, and ratios are taken within a turn. Where `perf` may count
them, the server's user instructions are given too: other work on the machine hardly moves them.
"""

import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import httpx

from clients.bench.server.load import DIM, decide_all, generator
from clients.bench.server.processes import N_SESSIONS, SERVE, cpu_seconds, key_of, servers

OFF, ON = "everything off", "everything on"
SCRAPE_SECONDS = 1.0
TENANT = "shop"


class Feature(NamedTuple):
    """The server's settings, and whether it has keys, a scraper and a collector."""

    settings: dict[str, str]
    has_keys: bool = False
    is_scraped: bool = False
    is_collected: bool = False


def _traces(share: float) -> Feature:
    settings = {"LHB_TRACES": "true", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}
    settings["OTEL_TRACES_SAMPLER_ARG"] = str(share)
    return Feature(settings, is_collected=True)


NOTHING = Feature({"LHB_MAX_WAIT_SECONDS": "0"})
LIMITS = {"SESSIONS": 10**6, "TRAJECTORIES": 10**6, "TENANT_MB": 10**6, "ARMS": 1000, "DIM": 1000}
SINGLE = {
    "early 503": Feature({"LHB_MAX_WAIT_SECONDS": "0.25"}),
    "keys": Feature({}, has_keys=True),
    "limits of a tenant": Feature({f"LHB_MAX_{name}": str(n) for name, n in LIMITS.items()}),
    "limit of requests": Feature(
        {"LHB_REQUESTS_PER_SECOND": "1000000", "LHB_REQUEST_BURST": "1000000"}
    ),
    "metrics, scraped each second": Feature({}, is_scraped=True),
    "audit entries deleted": Feature({"LHB_AUDIT_DAYS": "30"}),
    "log line a request": Feature({"LHB_LOG_LEVEL": "info", "LHB_LOG_REQUESTS": "true"}),
    "traces, 1 in 100 kept": _traces(0.01),
}
FEATURES = {
    OFF: NOTHING,
    **SINGLE,
    "traces, none kept": _traces(0.0),
    "traces, all kept": _traces(1.0),
    ON: Feature(
        {name: value for one in SINGLE.values() for name, value in one.settings.items()},
        has_keys=True,
        is_scraped=True,
        is_collected=True,
    ),
}


def run(seconds: int, n_turns: int, names: list[str] | None = None) -> dict[str, Any]:
    """Measure every feature in turns.

    Parameters
    ----------
    seconds : int
        How long decisions are asked for, as many as are answered.
    n_turns : int
        Number of turns.
    names : list of str, optional
        Of FEATURES, beside OFF. Default: all.
    """
    asked = [OFF, *(name for name in names or FEATURES if name != OFF)]
    turns = [{name: _measured(FEATURES[name], seconds) for name in asked} for _ in range(n_turns)]
    return {
        "settings": {"seconds": seconds, "turns": n_turns, "load_generator": generator()},
        "features": {name: _summary(name, turns) for name in asked},
    }


def _summary(name: str, turns: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in ("log_lines", "scrapes"):
        found[key] = median(turn[name][key] for turn in turns)
    for key in ("cpu_us", "instructions"):
        ratios = [turn[name][key] / turn[OFF][key] for turn in turns]
        found[key] = round(median(turn[name][key] for turn in turns), 1)
        found[f"{key}_ratio"] = round(median(ratios), 3)
        found[f"{key}_quartiles"] = [
            round(q, 3) for q in (quantiles(ratios)[::2] if len(ratios) > 1 else ratios * 2)
        ]
    return found


def _measured(feature: Feature, seconds: int) -> dict[str, float]:
    """Return the server's CPU in us, and its thousands of user instructions, a decision.

    And how many lines it logged, and how often its metrics were read.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = NOTHING.settings | {"LHB_DATABASE_URL": f"sqlite:///{folder / 'bench.db'}"}
        environment |= feature.settings
        url = environment["LHB_DATABASE_URL"]
        headers = key_of(url, TENANT) if feature.has_keys else {}
        log = str(folder / "log")
        if feature.is_collected:
            environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = stack.enter_context(_collector())
        [(url, pid)] = stack.enter_context(servers(1, SERVE, log=log, **environment))
        asked = httpx.get(f"{url}/v1/sessions", timeout=60)
        assert (asked.status_code == 401) == feature.has_keys
        scrapes: list[int] = []
        if feature.is_scraped:
            stack.enter_context(_scraping(f"{url}/metrics", headers, scrapes))
        with httpx.Client(base_url=url, timeout=60, headers=headers) as client:
            body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
            made = [client.post("/v1/sessions", json=body) for _ in range(N_SESSIONS)]
        ids = [one.raise_for_status().json()["id"] for one in made]
        decide_all([url], ids, 1, False, headers)
        used, counts = cpu_seconds([pid]), folder / "counts"
        with _counting(pid, counts):
            answered = decide_all([url], ids, seconds, False, headers)
        used = cpu_seconds([pid]) - used
        found = re.search(r"(?m)^(\d+),", counts.read_text()) if counts.exists() else None
        instructions = int(found[1]) / answered.n / 1e3 if found else float("nan")
        with Path(log).open() as lines:
            n_lines = sum(1 for _ in lines)
        return {
            "cpu_us": used / answered.n * 1e6,
            "instructions": instructions,
            "log_lines": n_lines,
            "scrapes": len(scrapes),
        }


@contextmanager
def _counting(pid: int, file: Path) -> Iterator[None]:
    """Count the user instructions of a process meanwhile, where this machine has `perf`."""
    if shutil.which("perf") is None:
        yield
        return
    command = ("perf", "stat", "-x", ",", "-e", "instructions:u", "-o", str(file), "-p", str(pid))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@contextmanager
def _scraping(url: str, headers: dict[str, str], sizes: list[int]) -> Iterator[None]:
    """Read the metrics again and again, as Prometheus does; add the size of each to a list."""
    end = threading.Event()

    def scrape() -> None:
        with httpx.Client(timeout=60, headers=headers) as client:
            while True:
                sizes.append(len(client.get(url).raise_for_status().content))
                if end.wait(SCRAPE_SECONDS):
                    return

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(60)


@contextmanager
def _collector() -> Iterator[str]:
    """Take spans by OTLP over HTTP and forget them; yield the URL."""

    class Taken(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Taken) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
