"""POST /v1/batch: decisions and rewards of many sessions, in their order.

Every item of the answer has its own status. A batch gives way: its items are read, run and answered
in slices.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Required

import structlog
from msgspec import Meta, MsgspecError, Raw, Struct
from msgspec.json import Decoder, encode
from pydantic import Field, ValidationError, with_config
from pydantic_core import to_json
from typing_extensions import TypedDict

from clients.sdk.answers import BatchAnswer
from service.api.body_parsing import (
    BATCH,
    DECISION,
    REWARDS,
    BodyParser,
    count_keys,
    refuse_duplicates,
)
from service.api.decisions import (
    DecisionParts,
    decision_answer,
    made_decision,
    sliced_decision,
    take,
)
from service.api.request_bodies import BatchItem
from service.api.rewards import ReceiveParts, made_receive, receive_parts
from service.api.routes import Routes
from service.api.runtime import Service
from service.api.session_names import find_ids
from service.base.field_types import STRICT, Key
from service.base.logs import REQUEST_ID, log_failure
from service.base.loop_slices import SlicedWork, pausing
from service.base.problems import Problem, ProblemCode, defect
from service.commands.decisions import Blocked, Decide, Taken
from service.commands.rewards import ReceiveRewards
from service.session.records import SessionKey
from service.storage.ports import Keys
from service.writer.command import Command
from service.writer.unit_of_work import UnitOfWork

router = Routes(tags=["decisions"])
_Request = tuple[str, DecisionParts | ReceiveParts]  # a session, and what its command is made of
log = structlog.get_logger()


@with_config(STRICT)
class _Envelope(TypedDict):
    items: Annotated[list[Any], Field(min_length=1, max_length=1000)]


@with_config(STRICT)
class _Item(TypedDict, total=False):
    session_id: Required[Key]
    decision: dict[str, Any]
    reward: dict[str, Any]


class _RawItems(Struct, forbid_unknown_fields=True):
    """A batch whose items are not parsed yet: this takes a tenth of the time."""

    items: Annotated[list[Raw], Meta(min_length=1, max_length=1000)]


ENVELOPE, ITEM = BodyParser(_Envelope), BodyParser(_Item)
RAW_ITEMS = Decoder(_RawItems)
# encodes a parsed value again; NaN and infinity stay as they are: the parser refuses them
_json = partial(to_json, inf_nan_mode="constants")
BATCH_ITEM = BodyParser(BatchItem, is_hot=True)


@router.hot(
    "POST /v1/batch", "Send decisions and rewards of many sessions", BatchAnswer, body=BATCH
)
async def post_batch(
    service: Service, tenant: str, _session: str, body: bytes
) -> tuple[int, bytes]:
    """Run all items, in their order.

    Every item has the status and the answer that its own route would give. Behind a decision that
    waits for a fit the later items of its session wait, too.
    """
    slices = service.loop_slices
    items = await service.parsed(tenant, parse_batch, body)
    ids = await find_ids(service, tenant, [item[0] for item in items if isinstance(item, tuple)])
    attempts = await slices.run(pausing(_command(service, tenant, item, ids) for item in items))
    commands = {i: one for i, one in enumerate(attempts) if not isinstance(one, Exception)}
    outcomes: list[Any] = [*attempts]  # in the place of each command its result, or its error
    for i, outcome in (await _run_in_order(service, commands)).items():
        outcomes[i] = outcome
    shown = await slices.run(pausing(map(_answer, outcomes)))
    service.metrics.observe_items(shown, tenant)
    parts = await slices.run(pausing(encode(answer) for answer in shown))
    return 200, b'{"items":[%b]}' % b",".join(parts)


@dataclass(slots=True)
class _InOrder(Command[Any]):
    """An item's command; waits while an earlier decision of the item's session waits for a fit.

    `waiting` is shared by the items of a batch: by session, the place of the decision that waits.
    """

    place: int
    command: Decide | ReceiveRewards
    waiting: dict[SessionKey, int]

    def keys(self, keys: Keys) -> None:
        """Add the rows that the command reads."""
        self.command.keys(keys)

    def whose(self) -> str:
        """Return the session's tenant."""
        return self.command.whose()

    def is_brief(self, uow: UnitOfWork) -> bool:
        """Whether the command reads and writes only a few rows."""
        return self.command.is_brief(uow)

    def __call__(self, uow: UnitOfWork) -> Any:
        """Run the command, or return None: it was not its turn."""
        key = self.command.key
        if self.waiting.get(key, self.place) < self.place:
            return None
        self.waiting.pop(key, None)
        result = self.command(uow)
        if isinstance(result, Blocked):
            self.waiting[key] = self.place
        return result


async def _run_in_order(
    service: Service, commands: Mapping[int, Decide | ReceiveRewards]
) -> dict[int, Any]:
    """Run the items of a batch; return what each came to, a result or an error, by place.

    Items of one session run in their order, also where one waits for a fit. All wait for fits no
    longer than one decision does.
    """
    deadline = service.monotonic() + service.settings.fit_wait_seconds
    outcomes: dict[int, Any] = {}
    waiting: dict[SessionKey, int] = {}
    left = [_InOrder(place, command, waiting) for place, command in commands.items()]
    while left:
        results = await service.writer.submit_all([*left])
        waiting.clear()
        held, blocked = [], {}
        for one, (result, error) in zip(left, results, strict=True):
            if error is None and result is None:
                held.append(one)
            elif isinstance(result, Blocked) and isinstance(one.command, Decide):
                blocked[one.place] = take(service, one.command, result, deadline)
            else:
                outcomes[one.place] = result if error is None else error
        taken = await asyncio.gather(*blocked.values(), return_exceptions=True)
        outcomes |= zip(blocked, taken, strict=True)
        left = held
    return outcomes


def parse_batch(body: bytes) -> SlicedWork[list[_Request | Exception]]:
    """Parse a batch body: what each item asks for, or the error that refuses it."""
    made: list[_Request | Exception] = []
    for item in (yield from _read_items(body)):
        yield
        if isinstance(item, Problem):
            made.append(item)
            continue
        try:
            decision, reward = item.get("decision"), item.get("reward")
            if decision is not None and reward is None:
                made.append((item["session_id"], (yield from sliced_decision(decision))))
            elif reward is not None and decision is None:
                made.append((item["session_id"], receive_parts(reward)))
            else:
                code = ProblemCode.MISSING if decision is None else ProblemCode.AMBIGUOUS
                raise Problem(code, "an item has either a decision or a reward", "decision")
        except Exception as broken:
            made.append(broken)
    return made


def _read_items(body: bytes) -> SlicedWork[list[BatchItem | Problem]]:
    """Parse the items. An invalid item becomes the Problem that its own route would answer."""
    with contextlib.suppress(MsgspecError, UnicodeError, RecursionError):
        items: list[BatchItem | Problem] = []
        n_colons = 1
        for raw in RAW_ITEMS.decode(body).items:
            n_colons += (text := bytes(raw)).count(b":")
            item = BATCH_ITEM.read_quickly(text)
            if item is None:
                break
            items.append(item)
            yield
        else:
            if n_colons == body.count(b":"):  # else a key occurs twice beside the items
                return items
    try:
        batch = BATCH.adapter.validate_json(body)
    except ValidationError:
        values = ENVELOPE.parse(body)["items"]
        with contextlib.suppress(ValueError, RecursionError):  # pydantic has parsed it already
            refuse_duplicates(body, -1)
        return [_read_item(item) for item in values]
    refuse_duplicates(body, count_keys(batch))
    return [*batch["items"]]


def _read_item(value: Any) -> BatchItem | Problem:
    try:
        fields = ITEM.parse(_json(value))
        item: BatchItem = {"session_id": fields["session_id"]}
        if "decision" in fields:
            item["decision"] = DECISION.parse(_json(fields["decision"]))
        if "reward" in fields:
            item["reward"] = REWARDS.parse(_json(fields["reward"]))
        return item
    except Problem as problem:
        return problem


def _command(
    service: Service, tenant: str, request: _Request | Exception, ids: Mapping[str, str]
) -> Decide | ReceiveRewards | Exception:
    """Make the command of an item, or return the error that refuses it."""
    if isinstance(request, Exception):
        return request
    session, parts = request
    make: Any = made_receive if isinstance(parts, ReceiveParts) else made_decision
    try:
        made: Decide | ReceiveRewards = make(service, tenant, ids.get(session, session), parts)
        return made
    except Problem as problem:
        return problem


def _answer(outcome: Any) -> dict[str, Any]:
    """Answer one item. A defect fails its own item only: the other items are durable."""
    if isinstance(outcome, Taken):
        status = 201 if outcome.is_new else 200
        return {"status": status, "decision": decision_answer(outcome.decision)}
    if not isinstance(outcome, BaseException):
        return {"status": 200, "reward": outcome._asdict()}
    problem, request_id = outcome, REQUEST_ID.get()
    if not isinstance(problem, Problem):
        log.error("defect", request_id=request_id, path="/v1/batch", exc_info=problem)
        problem = defect(request_id)
    elif problem.status >= 500:
        log_failure(problem, request_id, "/v1/batch")
    return {"status": problem.status, "problem": problem.to_json()}
