"""A server with some features of operation, each on a new SQLite file; its load, its collector."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.server.load import DIM
from benchmarks.server.processes import N_SESSIONS, SERVE, UNHURRIED, key_of, servers

TENANT = "shop"
# in a message to the collector, whenever it is full; OpenTelemetry's own messages are larger
SPANS = {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "16", "OTEL_BSP_SCHEDULE_DELAY": "3600000"}


class Feature(NamedTuple):
    """The server's settings, and whether it has keys, a scraper and a collector."""

    settings: dict[str, str]
    has_keys: bool = False
    is_scraped: bool = False
    is_collected: bool = False


class FeaturedServer(NamedTuple):
    """A server that runs, and its sessions."""

    url: str
    pid: int
    headers: dict[str, str]  # that its callers send
    ids: list[str]
    log: Path

    def scrape(self) -> int:
        """Read the metrics, as Prometheus does; return their size."""
        answer = httpx.get(f"{self.url}/metrics", headers=self.headers, timeout=60)
        return len(answer.raise_for_status().content)

    @property
    def n_lines(self) -> int:
        """How many lines it has logged."""
        with self.log.open() as lines:
            return sum(1 for _ in lines)


@contextmanager
def featured_server(
    feature: Feature, folder: Path, under: Sequence[str] = (), slowness: float = 1
) -> Iterator[FeaturedServer]:
    """Run a server that has a feature.

    Parameters
    ----------
    feature : Feature
    folder : Path
        For its files.
    under : sequence of str
        A command that runs it, like valgrind.
    slowness : float
        How much longer everything takes then, the wait before an early 503 too.
    """
    environment = {**feature.settings, "LHB_DATABASE_URL": f"sqlite:///{folder / 'bench.db'}"}
    most_wait = float(environment["LHB_MAX_WAIT_SECONDS"]) * slowness
    environment |= {"PYTHONHASHSEED": "0", "LHB_MAX_WAIT_SECONDS": str(most_wait)}
    headers = key_of(environment["LHB_DATABASE_URL"], TENANT) if feature.has_keys else {}
    log, code = folder / "log", UNHURRIED + SERVE if under else SERVE
    with ExitStack() as stack:
        if feature.is_collected:
            environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = stack.enter_context(_collector())
            environment |= SPANS
        [(url, pid)] = stack.enter_context(servers(1, code, str(log), under, **environment))
        with httpx.Client(base_url=url, timeout=60) as client:
            assert (client.get("/v1/sessions").status_code == 401) == feature.has_keys
            body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
            options: dict[str, Any] = {"json": body, "headers": headers}
            made = [client.post("/v1/sessions", **options) for _ in range(N_SESSIONS)]
        ids = [one.raise_for_status().json()["id"] for one in made]
        yield FeaturedServer(url, pid, headers, ids, log)


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
