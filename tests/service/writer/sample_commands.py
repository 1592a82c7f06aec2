"""Commands that tests of the writer hand to it."""

from service.commands.decisions import Decide
from service.commands.limits import NO_LIMITS
from service.writer.command import Command
from service.writer.unit_of_work import UnitOfWork
from tests.service.service_harness import CONTEXTS, ServiceHarness


def decide(harness: ServiceHarness, event_id: str | None = None) -> Decide:
    digest = None if event_id is None else event_id.encode()
    return Decide(harness.key, harness.agents, NO_LIMITS, "", CONTEXTS, event_id, digest=digest)


class WritesThenFails(Command[None]):
    """A command against the rules: its transaction cannot be kept."""

    def __init__(self, harness: ServiceHarness, error: Exception) -> None:
        self.decide = decide(harness)
        self.error = error

    def __call__(self, uow: UnitOfWork) -> None:
        self.decide(uow)
        raise self.error
