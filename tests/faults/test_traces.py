"""What a server and a worker send to a collector, and that without one they load nothing of it."""

import gzip
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from service.base.server_settings import Settings
from service.commands.keys import new_key, save_key
from service.storage.maintenance import migrate
from service.storage.ports import Refused
from service.transfer.without_server import run
from service.web.tracing import open_tracing
from tests.faults.server_process import Server, WorkerProcess
from tests.faults.test_logs import CONTEXT, PASSWORD, REWARD, TRACE, lines

TRACE_ID, PARENT_ID = TRACE.split("-")[1:3]


class Collector(ThreadingHTTPServer):
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        bodies = self.bodies

        class Taken(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                is_packed = self.headers.get("content-encoding") == "gzip"
                bodies.append(gzip.decompress(body) if is_packed else body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Taken)

    @property
    def settings(self) -> dict[str, str]:
        endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        return {"LHB_TRACES": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}

    def spans(self) -> list[Span]:
        found: list[Span] = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                assert attributes(resource.resource)["service.name"] == "lhb"
                found += [span for scope in resource.scope_spans for span in scope.spans]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def attributes(of: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in of.attributes}


def test_requests_commits_and_fits_are_traced_without_what_clients_sent(
    database_url: str, collector: Collector
) -> None:
    migrate(database_url)
    key, row = new_key("acme", "a test", time.time())
    run(database_url, save_key(row))
    url = database_url.replace("lhb@", f"lhb:{PASSWORD}@")
    told = {**collector.settings, "LHB_LOG_LEVEL": "info", "LHB_LOG_REQUESTS": "true"}
    with Server(url, **told) as server, server.client() as client, ExitStack() as stack:
        client.headers["authorization"] = f"Bearer {key}"
        body = {"algorithm": "ad_lasso", "dim": 2, "horizon": 4, "name": "shop"}
        session = client.post("/v1/sessions", json=body).json()["id"]
        path, arms = f"/v1/sessions/{session}", [[CONTEXT, 0.5], [0.25, -CONTEXT]]
        kept = {"traceparent": TRACE, "x-request-id": "mine-1"}
        decide = {"contexts": arms}
        assert client.post(f"{path}/decisions", json=decide, headers=kept).status_code == 201
        for n in range(2, 6):
            given = {"contexts": arms, "rewards": [{"round": n - 1, "value": REWARD}]}
            assert client.post(f"{path}/decisions", json=given).status_code == 201
        item = {"session_id": session, "reward": {"round": 5, "value": REWARD}}
        assert client.post("/v1/batch", json={"items": [item]}).status_code == 200
        wrong = {"contexts": f"{CONTEXT}"}
        assert client.post(f"{path}/decisions", json=wrong).status_code == 422
        client.get(path, params={"event": str(CONTEXT)})
        client.get("/metrics")
        fitting = None
        if "sqlite" not in url:
            fitting = stack.enter_context(WorkerProcess(url, **told))
        deadline = time.monotonic() + 120
        while client.get(path).json()["fit_due"] and time.monotonic() < deadline:
            time.sleep(0.5)  # each request writes a line, and nobody empties the pipe
        server.stop()
        output = server.output
        if fitting is not None:
            assert fitting.stop() == 0
            output += fitting.output
    spans = collector.spans()
    requests = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    logged = {line["span_id"]: line for line in lines(output, "request") if "span_id" in line}
    assert {span.span_id.hex() for span in requests} == set(logged)  # each, and none of /metrics
    for span in requests:
        line, said = logged[span.span_id.hex()], attributes(span)
        assert (line["trace_id"], line["status"]) == (
            span.trace_id.hex(),
            said["http.response.status_code"],
        )
        assert span.name == f"{line['method']} {said['http.route']}"
        assert (said["lhb.tenant"], said["lhb.key"]) == ("acme", row.id)
        assert said["lhb.request_id"] == line["request_id"]
        assert said["url.path"] == line["path"]
    decided = "POST /v1/sessions/{session_id}/decisions"
    [ours] = [span for span in requests if span.trace_id.hex() == TRACE_ID]
    assert (ours.name, ours.parent_span_id.hex()) == (decided, PARENT_ID)
    [refused] = [span for span in requests if attributes(span).get("lhb.problem")][:1]
    assert refused.name == decided
    commits = [span for span in spans if span.name == "commit"]
    linked = [link.span_id for span in commits for link in span.links]
    wrote = [
        span.span_id
        for span in requests
        if span.name.startswith("POST") and attributes(span)["http.response.status_code"] < 300
    ]
    assert sorted(linked) == sorted(wrote)  # every write is in one commit, and no read is
    assert sum(attributes(span)["lhb.commands"] for span in commits) >= len(wrote)
    fit_lines = lines(output, "fit")
    assert fit_lines
    fits = {span.span_id.hex(): span for span in spans if span.name == "fit"}
    for line in fit_lines:
        span = fits.pop(line["span_id"])
        assert span.trace_id.hex() == line["trace_id"] != TRACE_ID
        said = attributes(span)
        assert (said["lhb.fit.session"], said["lhb.fit.status"]) == (session, line["status"])
        took = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
        assert took == pytest.approx(line["seconds"], abs=1e-3)
    assert not fits
    secrets = (key, PASSWORD, str(CONTEXT), str(REWARD), row.digest.hex())
    for secret in secrets:
        assert secret not in output
        assert not any(secret.encode() in body for body in collector.bodies)
    values = [value for span in spans for value in attributes(span).values()]
    assert not {CONTEXT, -CONTEXT, REWARD} & {v for v in values if isinstance(v, float)}


class Inspected(Server):
    """Prints what it has loaded when it ends."""

    is_forked = False
    code = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: None);"
        "from service.operation.server import run; run(port=0); print(sorted(sys.modules))"
    )


def test_without_traces_nothing_of_it_is_loaded_or_sent(
    tmp_path: Path, collector: Collector
) -> None:
    """Not by FastAPI either, which sends the text of errors where it is left to."""
    told = collector.settings | {"LHB_TRACES": "false", "FASTAPI_OTEL_AUTO_CONFIGURE": "true"}
    with Inspected(tmp_path / "lhb.db", **told) as server, server.client() as client:
        body = {"algorithm": "uniform", "dim": 2, "horizon": 4}
        assert client.post("/v1/sessions", json=body).status_code == 201
        assert client.post("/v1/sessions", json={}).status_code == 422
        server.stop()
    loaded = server.output[server.output.index("[") :]
    assert "'service.web.tracing'" in loaded
    for module in (
        "opentelemetry.sdk",
        "opentelemetry.exporter",
        "service.web.spans",
        "google.proto",
    ):
        assert module not in loaded
    assert not collector.bodies


def test_a_collector_that_is_away_costs_spans_only(tmp_path: Path) -> None:
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
        told = {"LHB_TRACES": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": away}
        told |= {"LHB_LOG_LEVEL": "info", "OTEL_BSP_SCHEDULE_DELAY": "10"}
        with Server(tmp_path / "lhb.db", **told) as server, server.client() as client:
            body = {"algorithm": "uniform", "dim": 2, "horizon": 4}
            assert client.post("/v1/sessions", json=body).status_code == 201
            server.stop()
    told_of = lines(server.output, "traces")
    assert told_of
    printed = [line for line in server.output.splitlines() if line]
    assert all(line.startswith(("{", "listening on")) for line in printed), printed
    assert lines(server.output, "stop")


def test_traces_without_their_extra_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.delitem(sys.modules, "service.web.spans", raising=False)
    with pytest.raises(Refused, match=r"bandits\[opentelemetry\]"):
        open_tracing("server", Settings(traces=True))
    assert open_tracing("server", Settings()) is None
