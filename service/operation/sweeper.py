"""The sweeper: erases rows that no reader sees, rows that retention drops, and old audits."""

from time import monotonic

import structlog

from service.api.runtime import Service
from service.base.recurring import Recurring
from service.commands.drop_rounds import drop_rounds, give_up_rounds, plan
from service.commands.erase_trajectory import sweep
from service.rounds.retention import Plan
from service.session.records import SessionKey, SessionRow
from service.storage.giving_way import giving_way
from service.storage.reader import Reader
from service.writer.after_commit import Effects
from service.writer.notices import MOST_FORGOTTEN, forget_audit

log = structlog.get_logger()
LOOK_SECONDS = 5.0  # between two looks for rows whose writer has died
AT_ONCE = 100  # sessions that are looked at in one read
AUDIT_SECONDS = 3600.0  # between two looks for entries of the audit log that are too old


class Sweeper(Recurring):
    """Erases the rows of deleted sessions, of large writes that came to no end, and old audits.

    On a local database every hidden row at start-up is a dead writer's. On a shared one the writer
    may be another process, which has until `sweep_at`.
    """

    def __init__(self) -> None:
        self._abandoned: dict[SessionKey, str] = {}  # with the token of the writer that is gone
        super().__init__("sweep", lambda: LOOK_SECONDS, self._look)
        self._audited_at = -AUDIT_SECONDS

    def sweep(self, service: Service) -> None:
        """Begin to sweep a service's database."""
        self._service = service
        if service.store.is_local:
            with service.store.reader() as reader:
                hidden = [note for note in reader.hidden() if note.writer is not None]
            self._abandoned |= {note[:2]: str(note.writer) for note in hidden}
        self.start()
        self.wake()

    def after_commit(self, effects: Effects) -> None:
        """Sweep now if a committed batch has deleted a session."""
        if effects.removed:
            self.wake()

    def abandon(self, key: SessionKey, writer: str) -> None:
        """Sweep the rows of a large write that has failed, unless they are another's by now."""
        self._abandoned[key] = writer
        self.wake()

    async def _look(self) -> None:
        """Sweep; where that fails, e.g. the disk is full, hidden rows harm nobody meanwhile.

        What is left when the server stops is swept after the next start.
        """
        await self._sweep(self._service)
        await self._drop(self._service)
        await self._forget_audit(self._service)

    async def _sweep(self, service: Service) -> None:
        notes, now = await service.look(Reader.hidden), service.writer.clock()
        keys = {note[:2]: note.writer is None or note.sweep_at <= now for note in notes}
        for key in [key for key, is_due in keys.items() if is_due or key in self._abandoned]:
            writer = self._abandoned.get(key)
            await service.slices.run(sweep(key, abandoned_by=writer))
            if self._abandoned.get(key) == writer:
                self._abandoned.pop(key, None)

    async def _drop(self, service: Service) -> None:
        after: SessionKey = ("", "")

        def planned(reader: Reader) -> list[tuple[SessionRow, Plan | None]]:
            """Return sessions that drop rounds, each with what it may give up now."""
            now = service.writer.clock()
            return [
                (one, plan(reader, one, now) if one.swept_to == one.dropped_to else None)
                for one in giving_way(reader.with_retention(after, AT_ONCE))
            ]

        while True:
            sessions = await service.look(planned)
            for session, retention in sessions:
                if retention is not None and await service.writer.submit(
                    give_up_rounds(session.key, retention)
                ):
                    log.info("rounds_given_up", session_id=session.id, to=retention.dropped_to)
                    await service.slices.run(drop_rounds(session.key, retention.dropped_to))
                elif session.swept_to < session.dropped_to:
                    await service.slices.run(drop_rounds(session.key, session.dropped_to))
                after = session.key
            if len(sessions) < AT_ONCE:
                return

    async def _forget_audit(self, service: Service) -> None:
        seconds = service.settings.audit_days * 86_400
        if not seconds or monotonic() - self._audited_at < AUDIT_SECONDS:
            return
        n_gone, n = 0, MOST_FORGOTTEN
        while n == MOST_FORGOTTEN:
            n = await service.writer.submit(forget_audit(seconds))
            n_gone += n
        if n_gone:
            log.info("audit_forgotten", entries=n_gone)
        self._audited_at = monotonic()
