"""Endpoints that create, list, read, follow, change and delete sessions."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, TypedDict, get_type_hints

from fastapi import Query, Response
from starlette.responses import StreamingResponse

from clients.sdk.answers import ClockAnswer, HoldoutAnswer
from clients.sdk.answers import SessionAnswer as ClientsSession
from lhb_engine.agents.base import Deciding
from service.api.answer_models import LIMIT, cut, members_of, page, page_of, timestamp
from service.api.body_parsing import PATCH, SESSION
from service.api.routes import Call, Routes, json_response
from service.api.runtime import Service
from service.base.problems import Problem
from service.commands.sessions import change_session, create_session, erase_feature, remove_session
from service.fits.cost import allowed_cost
from service.session.names import counted_labels
from service.session.records import Actor, SessionRow
from service.session.spec import SessionSpec
from service.session.trial import Guard
from service.storage.giving_way import giving_way
from service.storage.reader import Reader
from service.writer.agent_cache import deciding
from service.writer.command import Command

SHOWN: dict[str, Any] = {
    "seed": int,
    "features": list[str] | None,
    "arms": list[str] | None,
    "holdout": HoldoutAnswer | None,
    "guard": Guard,
    "clock": ClockAnswer | None,
}
SETTINGS = {name: SHOWN.get(name, kind) for name, kind in get_type_hints(SessionSpec).items()}
_members: Any = {**get_type_hints(ClientsSession), **SETTINGS}
SessionAnswer: Any = TypedDict("SessionAnswer", _members)  # type: ignore[misc]
SessionAnswer.__doc__ = ClientsSession.__doc__

router = Routes("/v1/sessions", tags=["sessions"])


def session_answer(session: SessionRow, deciding: Deciding) -> dict[str, Any]:
    """Return the members of `SessionAnswer`; `deciding` is what the next decision is made by."""
    trial, clock, names = session.trial, session.clock, session.names
    return {
        **members_of(SessionAnswer, session),
        "features": names.columns if names.are_given else None,
        "products": names.products or None,
        "repetition": names.repetition or None,
        "categories": names.categories,
        "arms": names.arms,
        "mode": trial.mode,
        "holdout": trial.holdout(),
        "guard": trial.guard,
        "clock": clock
        and {
            "slot_seconds": clock.slots.seconds,
            "start": timestamp(clock.slots.start),
            "totals": clock.totals,
            "late_slots": clock.late_slots,
            "n_slots": session.schedule.n_slots,
        },
        "archived": session.archived_at is not None,
        "fit_due": session.fit_due is not None,
        "deciding": deciding,
    }


def features_of_theta(session: SessionRow, estimate: Mapping[str, Any]) -> Sequence[str] | None:
    """Return what the numbers of an estimate's theta are: features, then products that count."""
    if products := estimate.get("products"):
        return counted_labels(session.names.columns, session.dim, products)
    return session.names.columns if session.names.are_given else None


async def written_session(service: Service, session: SessionRow, status: int) -> Response:
    """Answer with a session that a command has just written."""
    answer = await service.look(lambda reader: get_session(reader, session))
    return json_response(answer, status, location=f"/v1/sessions/{session.id}")


@router.serve("POST", "Create a session", SessionAnswer, 201, 200, 409, body=SESSION)
async def post_session(call: Call, fields: dict[str, Any]) -> Response:
    """Create a session. The same name and body again gets the same session (200)."""
    session, is_new = await call.submit(creation(call.service, call.tenant, call.actor, fields))
    return await written_session(call.service, session, 201 if is_new else 200)


def creation(
    service: Service, tenant: str, actor: Actor, body: dict[str, Any]
) -> Command[tuple[SessionRow, bool]]:
    """Make the command that creates a session within the limits of this server."""
    allowed = service.settings.allow_oracles, allowed_cost(service.settings)
    return create_session(tenant, body, *allowed, actor, service.limits)


@router.read("", "List sessions", page_of(SessionAnswer))
def get_sessions(
    reader: Reader,
    tenant: str,
    cursor: str = Query("", max_length=64, description="`next` of the previous page"),
    limit: int = LIMIT,
    archived: bool = Query(False, description="include archived sessions"),
    name: str | None = Query(None, max_length=256, description="only the session with this name"),
) -> dict[str, Any]:
    """List sessions in order of creation."""
    if name is None:
        rows = reader.sessions(tenant, cursor, limit + 1, archived)
    else:
        named = [one for one in [reader.session_named(tenant, name)] if one is not None]
        rows = [one for one in named if one.id > cursor and (archived or one.archived_at is None)]
    shown, following = cut(rows, limit, lambda session: session.id)
    return page([get_session(reader, one) for one in giving_way(shown)], following)


@router.read("/{session_id}", "Read a session", SessionAnswer)
def get_session(reader: Reader, session: SessionRow) -> dict[str, Any]:
    """Return the session as it is now."""
    return session_answer(session, deciding(reader, session))


@router.serve(
    "PATCH /{session_id}",
    "Rename or archive a session, or change its mode or options",
    SessionAnswer,
    409,
    body=PATCH,
)
async def patch_session(call: Call, session_id: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Rename, archive or unarchive, or turn to another mode.

    An archived session takes no decisions and no rewards. In `mode` "shadow" the caller plays its
    own arm, `forced_arm`, and the agent's choice is logged beside it; "live" lets the agent play.
    `options` that mean no new model may change (`changeable` in /v1/algorithms), and so may
    `reward_wait_seconds`. What was learned stays. After a change of options that are
    `changeable` "anew" all rounds are fitted anew.
    `guard` "armed" lets the agent play again where its guard has tripped, in a new comparison.
    """
    key, allowed = (call.tenant, session_id), allowed_cost(call.service.settings)
    session = await call.submit(change_session(key, fields, call.actor, allowed))
    return await call.service.look(lambda reader: get_session(reader, session))


@router.serve("DELETE /{session_id}", "Delete a session", None, 204)
async def delete_session(call: Call, session_id: str) -> None:
    """Delete the session and all its rows. This cannot be undone."""
    await call.submit(remove_session((call.tenant, session_id), call.actor))


@router.serve(
    "DELETE /{session_id}/features/{name:text}", "Erase the name of a category", None, 204
)
async def delete_feature(call: Call, session_id: str, name: str) -> None:
    """Erase what a category is called, like `user=bob`. This cannot be undone.

    `features` then has `user=(erased 3)` in its place. Its column stays, and what was learned of
    it; if the category comes again, it takes a new column.
    """
    await call.submit(erase_feature((call.tenant, session_id), name, call.actor))


EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
EVENTS = {"text/event-stream": {"schema": EVENT}}


@router.serve(
    "GET /{session_id}/changes",
    "Server-sent events of a session's changes",
    {"description": "Events", "content": EVENTS},
    response_class=Response,
)
async def get_changes(call: Call, session_id: str) -> Response:
    """Send the session now, and again within a second of every change, for 25 seconds.

    Each event's data is what `GET /v1/sessions/{session_id}` answers. A reader connects again when
    the stream has ended. The stream ends within seconds when the key is revoked.
    """
    events = await call.stream(_events(call, session_id))
    return StreamingResponse(events, media_type="text/event-stream")


async def _events(call: Call, session_id: str) -> AsyncGenerator[str, None]:
    service = call.service
    with service.streams.take(call.tenant):
        answer, every = None, service.intervals.changes
        for _ in range(round(service.intervals.stream / every)):
            try:
                now = await call.look(session_id, get_session)
            except Problem:
                if answer is None:
                    raise
                return  # deleted
            if now != answer:
                answer = now
                yield f"data: {json.dumps(answer)}\n\n"
            await asyncio.sleep(every)
            if not call.is_still_allowed():
                return
