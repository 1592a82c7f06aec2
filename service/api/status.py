"""Endpoints for algorithms, health, metrics and the documentation page."""

import asyncio
from dataclasses import MISSING, fields
from importlib.resources import files
from typing import Any, Literal

import structlog
from fastapi import Response
from pydantic import BaseModel, TypeAdapter
from starlette.responses import HTMLResponse, PlainTextResponse

from clients.sdk.answers import AlgorithmAnswer
from lhb_engine.agents import ALGORITHMS, Agent
from service.api.access import NO_KEY, STRANGER
from service.api.answer_models import members_of, page, page_of, timestamp
from service.api.routes import Call, Routes
from service.base.problems import ProblemCode, Unavailable
from service.session.records import FitQueue

router = Routes(tags=["server"])
ANSWER_SECONDS = 5.0  # the database's, to readiness
STALL_SECONDS = 10.0  # a commit that takes longer makes the server not ready
log = structlog.get_logger()


class AliveAnswer(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class ReadyAnswer(AliveAnswer):
    """The database answers. If there are keys, the other members are shown to key holders only."""

    database: Literal["ok"] | None = None
    commands_waiting: int | None = None
    fits: Literal["ok", "late", "no_workers"] | None = None
    fits_due: int | None = None
    oldest_due_fit_at: str | None = None
    workers: int | None = None


def algorithm_answer(agent: type[Agent], served: bool) -> dict[str, Any]:
    """Return the members of `AlgorithmAnswer`; `served`: whether sessions may use it here."""
    schema = TypeAdapter(agent.options_type).json_schema()
    schema["additionalProperties"] = False
    for field in fields(agent.options_type):
        described = schema["properties"][field.name]
        described.update({k: v for k, v in field.metadata.items() if isinstance(v, str | bool)})
        if field.default is not MISSING and isinstance(field.default, str | int | float | None):
            described["default"] = field.default
    return {**members_of(AlgorithmAnswer, agent), "served": served, "options": schema}


@router.serve("GET /v1/algorithms", "List algorithms and their options", page_of(AlgorithmAnswer))
async def get_algorithms(call: Call) -> dict[str, Any]:
    """List the algorithms that a session can name, with the JSON schema of their options."""
    allow = call.service.settings.allow_oracles
    items = [algorithm_answer(a, allow or not a.needs_truth) for a in ALGORITHMS.values()]
    return page(items, None)


@router.serve("GET /healthz", "Liveness", AliveAnswer, role=NO_KEY)
async def get_healthz(_: Call) -> dict[str, str]:
    """Answer ok while the process runs; the database is not asked."""
    return {"status": "ok"}


@router.serve("GET /readyz", "Readiness", ReadyAnswer, role=NO_KEY)
async def get_readyz(call: Call) -> dict[str, Any]:
    """Answer ok if the database answers and commits, and how many commands and fits wait.

    The status stays 200 while fits are late, or no worker is there, since decisions go on; `fits`
    says so.

    If the database has keys, a request without one gets the status only. The reason of a failure is
    in the log only, since it names hosts and files.
    """
    service = call.service

    def check() -> FitQueue:
        with service.store.reader() as reader:
            reader.check()
        return service.fits.queue()

    try:
        if service.writer.seconds_under_way > STALL_SECONDS:
            raise Unavailable(ProblemCode.STORAGE_BUSY, "a commit takes too long")
        async with asyncio.timeout(ANSWER_SECONDS):
            queue = await service.read(check)
    except (TimeoutError, Unavailable) as error:
        code = getattr(error, "code", ProblemCode.STORAGE_UNREACHABLE)
        log.warning("not_ready", code=code.value, reason=str(error) or "no answer in time")
        raise Unavailable(code, "the database cannot be used now; the log says why") from None
    if call.request.scope["lhb.access"] is STRANGER:
        return {"status": "ok"}
    # for so long that its workers may be frozen
    late_at = service.writer.clock() - service.settings.fit_late_seconds
    is_late = queue.oldest_at is not None and queue.oldest_at < late_at
    return {
        "status": "ok",
        "database": "ok",
        "commands_waiting": service.writer.n_waiting,
        "fits": "late" if is_late else "ok" if queue.n_workers else "no_workers",
        "fits_due": queue.n_due,
        "oldest_due_fit_at": timestamp(queue.oldest_at),
        "workers": queue.n_workers,
    }


@router.serve("GET /docs", role=NO_KEY)
async def get_docs(_: Call) -> Response:
    """Show the OpenAPI schema on a page that loads nothing from other sites."""
    html = files("service.api").joinpath("docs_page.html").read_text("utf-8")
    policy = "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'"
    policy += "; script-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
    headers = {"content-security-policy": policy, "x-content-type-options": "nosniff"}
    return HTMLResponse(html, headers=headers)


@router.serve("GET /metrics", "Prometheus metrics", None, 200, response_class=PlainTextResponse)
async def get_metrics(call: Call) -> Response:
    """Return the metrics in Prometheus' text format.

    Series of a tenant are shown to its keys, and to those of the default tenant, which see all.
    """
    text = await call.service.read(lambda: call.service.metrics.text(call.tenant))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
