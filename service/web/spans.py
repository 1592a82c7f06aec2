"""OpenTelemetry spans of requests, commits and fits; imported only where `LHB_TRACES` is set.

FastAPI's own spans are off: the hot routes bypass FastAPI, and its records of exceptions hold what
clients sent. A span here says what a log line may say: ids, names, counts, times, and no key,
context or reward.

The sampler is asked before a span is made, with the trace id that the span would have.
OpenTelemetry itself makes ids, an object and contexts for spans that nobody will see.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from importlib.metadata import version
from random import getrandbits
from typing import Any, NamedTuple

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Scope

from service.api.metrics import route_of
from service.base.logs import shown_path
from service.base.server_settings import DISTRIBUTION
from service.fits.processes import FitProcesses
from service.web.request_log import trace_of
from service.writer.group_commit import GroupCommit

LAST_SECONDS = 3.0  # for the spans that are left when a program stops
LOW_BITS = TraceIdRatioBased.TRACE_ID_LIMIT  # of a trace's id: they say whether it is kept
NOBODY = Context()  # of a span that belongs to no request
ASKED: ContextVar[Span | None] = ContextVar("ASKED", default=None)  # the present request's span
log = structlog.get_logger()


class RequestSpan(NamedTuple):
    """The span of a request that is being answered."""

    span: Span
    token: Token[Span | None]  # of what was asked before


class TraceIds(RandomIdGenerator):
    """Gives a new trace the id that the sampler was asked about."""

    def __init__(self) -> None:
        self.drawn = 0

    def draw(self) -> int:
        """Return a random id, which the next trace gets."""
        self.drawn = getrandbits(128) or 1  # 0 is no trace's id
        return self.drawn

    def generate_trace_id(self) -> int:
        """Return the id that was drawn last."""
        return self.drawn


class Tracing:
    """Makes the spans of a "server" or "worker", and sends them to a collector by OTLP over HTTP.

    Where to, and what share of traces is kept, is said by OpenTelemetry's own variables, like
    ``OTEL_EXPORTER_OTLP_ENDPOINT`` and ``OTEL_TRACES_SAMPLER``.
    """

    def __init__(self, program: str) -> None:
        about = {"service.version": version(DISTRIBUTION), "lhb.program": program}
        if "OTEL_SERVICE_NAME" not in os.environ:
            about["service.name"] = "lhb"
        reports = logging.getLogger("opentelemetry")
        reports.propagate, reports.handlers = False, [_Losses()]
        self._exporter = OTLPSpanExporter()
        self._ids, self._bound = TraceIds(), _bound()
        self._provider = TracerProvider(
            resource=Resource.create(about), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("lhb", version(DISTRIBUTION))
        self._traceparent = TraceContextTextMapPropagator()
        self._n_submitted = self._n_committed = 0  # commands
        self._submitted: deque[tuple[int, SpanContext]] = deque()  # of spans; which command

    def begin(self, scope: Scope, headers: Mapping[bytes, bytes]) -> RequestSpan | None:
        """Begin the span of a request, in the trace that its traceparent names; set its ids.

        None if the sampler leaves it out; its log line then has the caller's traceparent alone.
        """
        parent = NOBODY
        if b"traceparent" in headers and (carrier := trace_of(headers)):
            parent = self._traceparent.extract(carrier, NOBODY)
        elif self._ids.draw() & LOW_BITS >= self._bound:
            return None
        span = self._start(scope["method"], parent, kind=SpanKind.SERVER)
        if span is None:
            return None
        scope["lhb.trace"] = _ids(span)
        return RequestSpan(span, ASKED.set(span))

    def end(self, begun: RequestSpan, scope: Scope, status: int) -> None:
        """End the span of a request with what is known now: route, tenant, key and answer."""
        span, token = begun
        ASKED.reset(token)
        route, access = route_of(scope), scope.get("lhb.access")
        problem = scope.get("lhb.problem")
        facts = {
            "http.request.method": scope["method"],
            "http.route": route,
            "http.response.status_code": status,
            "url.path": shown_path(scope["path"]),
            "url.scheme": scope.get("scheme", "http"),
            "lhb.request_id": scope["lhb.request_id"],
            "lhb.tenant": scope.get("lhb.tenant"),
            "lhb.key": access and access.key_id,
            "lhb.problem": problem and problem.code.value,
        }
        span.update_name(f"{scope['method']} {route}")
        span.set_attributes({name: value for name, value in facts.items() if value is not None})
        if status >= 500:
            span.set_status(StatusCode.ERROR)
        span.end()

    def follow_writer(self, writer: GroupCommit) -> None:
        """Make a span of each transaction, with links to the requests whose commands it holds."""
        observe = writer.on_batch

        def on_batch(seconds: float, n_commands: int) -> None:
            observe(seconds, n_commands)
            self._end_commit(seconds, n_commands)

        writer.on_submit, writer.on_batch = self._note, on_batch

    def follow_fits(self, fits: FitProcesses) -> None:
        """Make a span of each recorded fit; its log line says which."""
        fits.on_record = self._end_fit

    def close(self) -> None:
        """Send what is left, for at most `LAST_SECONDS` if nobody takes it."""
        limit = threading.Timer(LAST_SECONDS, self._exporter.shutdown)
        limit.start()
        self._provider.shutdown()
        limit.cancel()

    def _note(self, n_commands: int) -> None:
        """Remember who submitted the next commands.

        A fit inherits the context of a request that is over, and is not that request's own.
        """
        self._n_submitted += n_commands
        request = ASKED.get()
        if request is not None and request.is_recording():
            self._submitted.append((self._n_submitted, request.get_span_context()))

    def _end_commit(self, seconds: float, n_commands: int) -> None:
        self._n_committed += n_commands
        links = []
        # a transaction holds whole submissions, in their order
        while self._submitted and self._submitted[0][0] <= self._n_committed:
            links.append(Link(self._submitted.popleft()[1]))
        facts = {"lhb.commands": n_commands}
        self._past("commit", seconds, facts, links)

    def _end_fit(self, seconds: float, record: Mapping[str, Any]) -> dict[str, str]:
        facts = {f"lhb.fit.{name}": value for name, value in record.items() if value is not None}
        span = self._past("fit", seconds, facts, [])
        return {} if span is None else _ids(span)

    def _past(
        self, name: str, seconds: float, facts: dict[str, Any], links: list[Link]
    ) -> Span | None:
        """Make the span of what ends now and took so many seconds, unless it is left out."""
        end = time.time_ns()
        begin = end - int(seconds * 1e9)
        if self._ids.draw() & LOW_BITS >= self._bound:
            return None
        span = self._start(name, NOBODY, attributes=facts, links=links, start_time=begin)
        if span is not None:
            span.end(end)
        return span

    def _start(
        self, name: str, parent: Context, start_time: int | None = None, **about: Any
    ) -> Span | None:
        """Start a span, or return None if the sampler leaves it out. A new trace's id is drawn."""
        trace_id = trace.get_current_span(parent).get_span_context().trace_id or self._ids.drawn
        sampling = self._provider.sampler.should_sample(parent, trace_id, name, **about)
        if sampling.decision is Decision.DROP:
            return None
        return self._tracer.start_span(name, parent, start_time=start_time, **about)


def _bound() -> int:
    """Return the number below which the low bits of a trace's id are, if OpenTelemetry keeps it.

    This is said by its variables, for traces that begin here. The sampler, which decides, takes
    several times as long to say no.
    """
    name = os.environ.get(OTEL_TRACES_SAMPLER, "").lower()
    if name.endswith("always_off"):
        return 0
    if name.endswith("traceidratio"):
        with suppress(ValueError):  # OpenTelemetry then keeps all
            return TraceIdRatioBased(float(os.environ.get(OTEL_TRACES_SAMPLER_ARG, ""))).bound
    return TraceIdRatioBased(1.0).bound


def _ids(span: Span) -> dict[str, str]:
    """Return what a log line says of a span."""
    context = span.get_span_context()
    return {
        "trace_id": trace.format_trace_id(context.trace_id),
        "span_id": trace.format_span_id(context.span_id),
    }


class _Losses(logging.Handler):
    """Writes what OpenTelemetry reports as a line of our log, without its parameters."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("traces", of=record.name, said=str(record.msg))
