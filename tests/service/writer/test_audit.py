"""The audit log is kept for as long as the operator says."""

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from service.session.records import COMMAND_LINE, AuditRow
from service.storage.ports import Changes
from service.writer.command import Command
from service.writer.notices import MOST_FORGOTTEN, note
from service.writer.unit_of_work import UnitOfWork
from tests.service.conftest import Serve, until

pytestmark = pytest.mark.anyio
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class AddEntries(Command[None]):
    """So many entries of that age, of two tenants in turns."""

    n: int
    days: float

    def __call__(self, uow: UnitOfWork) -> None:
        for i in range(self.n):
            at = time.time() - self.days * DAY
            entry_id = f"{round(at * 1e6):014x}{i:09x}"
            tenant = ("", "acme")[i % 2]
            entry = AuditRow(tenant, entry_id, at, None, None, "test", f"{i}", "{}")
            uow.pending.audit.append(entry)


async def test_entries_of_one_microsecond_keep_their_order() -> None:
    """So no two have one id: each is the first write of a transaction, and the clock stands."""
    audit: list[str] = []
    for _ in range(1000):
        uow: Any = SimpleNamespace(now=1000.0, n_writes=0, pending=Changes())
        note(uow, "", COMMAND_LINE, "test", "s")
        audit += [entry.id for entry in uow.pending.audit]
    assert audit == sorted({*audit})
    assert {len(one) for one in audit} == {23}


async def test_entries_of_the_audit_log_go_when_they_are_too_old(serve: Serve) -> None:
    async with serve() as client:  # by default none does
        await client.service.writer.submit(AddEntries(MOST_FORGOTTEN + 20, days=31))
        await client.service.writer.submit(AddEntries(2, days=29))
        session = await client.create()
        assert len((await client.read("/v1/audit?limit=1000"))["items"]) == MOST_FORGOTTEN + 23
    async with serve(audit_days=30) as client:

        async def left() -> Any:  # they go in slices
            entries = (await client.read("/v1/audit?limit=1000"))["items"]
            return entries if len(entries) < 20 else None

        entries = await until(left)
        assert [entry["subject"] for entry in entries] == ["0", "1", session]
        assert entries[-1]["action"] == "session_created"
