"""`lhb bench serve --everything-on`: what each feature of operation adds to a decision.

Each feature is switched on alone, then all together, against a server with none of them. Servers
take turns, in an order drawn for each turn, and ratios are taken within a turn. They are of CPU
time, or of user instructions under valgrind, which other work on the machine does not move.
"""

import random
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from benchmarks.server.featured_server import Feature, FeaturedServer, featured_server
from benchmarks.server.instructions import SLOWNESS, counting, send_waves, valgrind
from benchmarks.server.load import decide_all, decision_body, generator, request_of
from benchmarks.server.processes import cpu_seconds

OFF, ON = "everything off", "everything on"
SCRAPE_SECONDS = 1.0
WAVES_A_SECOND = 125  # that a server answers which is not under valgrind, about


def _traces(share: float) -> Feature:
    settings = {"LHB_TRACES": "true", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}
    settings["OTEL_TRACES_SAMPLER_ARG"] = str(share)
    return Feature(settings, is_collected=True)


NOTHING = {"LHB_MAX_WAIT_SECONDS": "0"}
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
    OFF: Feature({}),
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


def run(
    seconds: int, n_turns: int, names: Sequence[str] = (), *, is_counted: bool = False
) -> dict[str, Any]:
    """Measure every feature in turns.

    Parameters
    ----------
    seconds : int
        How long decisions are asked for, as many as are answered.
    n_turns : int
        Number of turns.
    names : sequence of str
        Of FEATURES, beside OFF. Default: all.
    is_counted : bool
        Count instructions rather than time, `SLOWNESS` times as long.
    """
    asked = [OFF, *(name for name in names or FEATURES if name != OFF)]
    measure = _counted if is_counted else _timed
    turns: list[dict[str, dict[str, float]]] = [{} for _ in range(n_turns)]
    for turn in turns:
        for name in random.sample(asked, len(asked)):
            feature = FEATURES[name]
            feature = feature._replace(settings=NOTHING | feature.settings)
            turn[name] = measure(feature, seconds)
    return {
        "settings": {"seconds": seconds, "turns": n_turns, "load_generator": generator()},
        "features": {name: _summary(name, turns) for name in asked},
    }


def _summary(name: str, turns: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        key: round(median(turn[name][key] for turn in turns), 1) for key in turns[0][name]
    }
    measure = "instructions" if "instructions" in found else "cpu_us"
    ratios = [turn[name][measure] / turn[OFF][measure] for turn in turns]
    error = stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else 0.0
    return found | {"ratio": round(mean(ratios), 4), "standard_error": round(error, 4)}


def _timed(feature: Feature, seconds: int) -> dict[str, float]:
    """Return the server's CPU in us a decision, its lines, and how often its metrics were read."""
    with (
        tempfile.TemporaryDirectory() as folder,
        featured_server(feature, Path(folder)) as server,
    ):
        with _scraping(server, feature.is_scraped) as sizes:
            decide_all([server.url], server.ids, 1, False, server.headers)
            began = cpu_seconds([server.pid])
            answered = decide_all([server.url], server.ids, seconds, False, server.headers)
            used = cpu_seconds([server.pid]) - began
        return _found("cpu_us", used / answered.n * 1e6, server, sizes)


def _counted(feature: Feature, seconds: int, waves: int = WAVES_A_SECOND) -> dict[str, float]:
    """Return its thousands of user instructions a decision, and the same."""
    with (
        tempfile.TemporaryDirectory() as name,
        featured_server(feature, folder := Path(name), valgrind(folder), SLOWNESS) as server,
    ):
        paths = [f"/v1/sessions/{id}/decisions" for id in server.ids]
        requests = cycle([request_of(path, decision_body(), server.headers) for path in paths])
        send_waves(server, requests, waves // 4)
        n, sizes = 0, []
        with counting(server.pid, folder) as counts:
            for _ in range(seconds):
                n += send_waves(server, requests, waves)
                if feature.is_scraped:
                    sizes.append(server.scrape())
        return _found("instructions", counts[0] / n / 1e3, server, sizes)


def _found(
    measure: str, of_each: float, server: FeaturedServer, sizes: list[int]
) -> dict[str, float]:
    return {measure: of_each, "log_lines": server.n_lines, "scrapes": len(sizes)}


@contextmanager
def _scraping(server: FeaturedServer, is_scraped: bool) -> Iterator[list[int]]:
    """Read the metrics again and again, if wanted; yield the size of each."""
    sizes: list[int] = []
    end = threading.Event()

    def scrape() -> None:
        while not end.wait(SCRAPE_SECONDS):
            sizes.append(server.scrape())

    thread = threading.Thread(target=scrape, daemon=True)
    if is_scraped:
        thread.start()
    try:
        yield sizes
    finally:
        end.set()
        if is_scraped:
            thread.join(60)
