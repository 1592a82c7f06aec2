"""Which requests get a span: what the sampler says of the trace's id, before a span is made."""

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from service.web.spans import Tracing

N = 800
PARENT = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
Begin = Callable[..., dict[str, str]]


@pytest.fixture
def tracing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    sampler, share = request.param
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", str(share))
    tracing = Tracing("server")
    yield tracing
    OTLPSpanExporter.shutdown(tracing._exporter)  # nobody takes what is left
    tracing.close()


def ids_of(tracing: Tracing, traceparent: str | None = None) -> dict[str, str]:
    """Answer a request of one command; the ids that its log line has."""
    headers = [(b"host", b"a")]
    if traceparent is not None:
        headers.append((b"traceparent", traceparent.encode()))
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/v1/sessions"}
    scope |= {"headers": headers, "lhb.request_id": "mine"}
    begun = tracing.begin(scope, dict(headers))
    tracing._note(1)
    assert len(tracing._submitted) == (begun is not None)
    if begun is not None:
        tracing.end(begun, scope, 200)
    tracing._end_commit(0.001, 1)
    found: dict[str, str] = scope.get("lhb.trace", {})
    return found


def kept(ids: dict[str, str], share: float) -> bool:
    """Whether a trace of this id is one of the share, as every service along it decides."""
    return int(ids["trace_id"][16:], 16) < share * 2**64


@pytest.mark.parametrize("tracing", [("parentbased_traceidratio", 0.25)], indirect=True)
def test_a_share_of_traces_is_kept_by_their_ids(tracing: Tracing) -> None:
    random.seed(4)  # OpenTelemetry's ids are drawn from it
    found = [ids for _ in range(N) if (ids := ids_of(tracing))]
    assert abs(len(found) - N / 4) < 3 * (N * 0.25 * 0.75) ** 0.5
    assert len({ids["trace_id"] for ids in found}) == len(found)
    for ids in found:
        assert re.fullmatch("[0-9a-f]{32}", ids["trace_id"])
        assert kept(ids, 0.25)
    for _ in range(50):  # whoever began the trace has decided
        assert ids_of(tracing, f"00-{PARENT}-01")["trace_id"] == PARENT[:32]
        assert not ids_of(tracing, f"00-{PARENT}-00")


@pytest.mark.parametrize("tracing", [("traceidratio", 0.6)], indirect=True)
def test_where_the_id_decides_a_callers_id_does(tracing: Tracing) -> None:
    for high in range(16):
        trace_id = f"{1:016x}{high:x}{0:015x}"
        ids = ids_of(tracing, f"00-{trace_id}-b7ad6b7169203331-01")
        assert bool(ids) == (high / 16 < 0.6)


@pytest.mark.parametrize(
    "tracing",
    [("parentbased_always_off", 1), ("always_off", 1), ("traceidratio", 0)],
    indirect=True,
)
def test_where_nothing_is_kept_no_span_is_made(
    tracing: Tracing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("a span was made")

    monkeypatch.setattr(tracing._tracer, "start_span", fail)
    for _ in range(10):
        assert ids_of(tracing) == {}
    assert not tracing._submitted


@pytest.mark.parametrize(
    "tracing",
    [
        ("parentbased_always_on", 0),
        ("always_on", 0),
        ("traceidratio", "x"),
        ("traceidratio", -1),
        ("unheard of", 0),
    ],
    indirect=True,
)
def test_where_all_is_kept_each_request_has_a_trace(tracing: Tracing) -> None:
    found = [ids_of(tracing) for _ in range(10)]
    assert len({ids["trace_id"] for ids in found}) == 10
