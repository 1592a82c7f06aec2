"""One attempt to commit a batch: its commands, their transaction and their outcomes."""

from time import perf_counter
from typing import Any

from service.base.problems import Problem, Unavailable
from service.storage.ports import Keys, KnownRows, Steps, Transaction
from service.writer.command import Command
from service.writer.effects import Effects
from service.writer.unit_of_work import UnitOfWork

Commands = list[Command[Any]]
CommandOutcome = tuple[Any, BaseException | None]
Committed = tuple[list[CommandOutcome], list[Effects]]
BRIEF_SECONDS = 0.005  # the longest that a batch may run in the event loop


class WroteThenFailed(Exception):
    """A command raised a `Problem` after it had written; the transaction must be rolled back."""


class Attempt:
    """A batch of commands in one transaction.

    The event loop and the writer's thread take turns on it, never at the same time.

    Parameters
    ----------
    transaction : Transaction
        The open transaction.
    commands : list of Command
        The batch.
    """

    def __init__(self, transaction: Transaction, commands: Commands) -> None:
        self.transaction = transaction
        self.commands = commands
        self._known = KnownRows()
        self._outcomes: list[CommandOutcome] = []

    def fetch(self, keys: Keys) -> Steps:
        """Return the steps that fetch the rows that the commands announced."""
        return prefetch(self.transaction, keys, self._known)

    def begin(self, now: float) -> None:
        """Create the unit of work, once the announced rows are fetched; `now` is its time."""
        self._uow = UnitOfWork(self.transaction, self._known, now)

    def run_brief(self, can_read: bool) -> bool:
        """Run commands until one is not brief, or BRIEF_SECONDS have passed.

        Parameters
        ----------
        can_read : bool
            Whether rows that were not announced can be read without blocking.

        Returns
        -------
        bool
            Whether all commands have run.
        """
        self._uow.can_read = can_read
        until = perf_counter() + BRIEF_SECONDS
        for command in self.commands:
            if not command.is_brief(self._uow) or perf_counter() > until:
                return False
            self._outcomes.append(_outcome(command, self._uow))
        return True

    def run_rest(self) -> None:
        """Run the remaining commands; called in the writer's thread."""
        self._uow.can_read = True
        for command in self.commands[len(self._outcomes) :]:
            self._outcomes.append(_outcome(command, self._uow))

    def commit(self) -> Steps:
        """Return the steps that commit, once all commands have run."""
        return self._uow.commit()

    @property
    def committed(self) -> Committed:
        """Outcomes and effects of the batch; valid once it is committed."""
        return self._outcomes, [self._uow.effects]


def announced(commands: Commands) -> Keys:
    """Return the keys of all rows that the commands announce."""
    keys = Keys()
    for command in commands:
        command.keys(keys)
    return keys


def prefetch(transaction: Transaction, keys: Keys, known: KnownRows) -> Steps:
    """Return the steps that fetch the rows that a batch announced.

    Rewards name rounds. The decision of a round is fetched only if the session has several
    trajectories, and its covering measurement only if `measured_through` reaches the round.
    """
    rounds, keys.rounds = keys.rounds, set()
    yield from transaction.fetch(keys, known)
    keys.rounds = rounds  # for another attempt
    if not rounds and not known.rounds:
        return
    more = Keys()
    for place in rounds | known.rounds.keys():
        key, round = place
        known.measured[place] = None  # replaced if it is fetched
        session, trajectory = known.sessions.get(key[:2]), known.trajectories.get(key)
        if session is None or trajectory is None or round > trajectory.n_rounds:
            continue
        if not session.is_one_sequence and place not in known.rounds:
            more.rounds.add(place)
        if round <= trajectory.measured_through:
            more.measured.add(place)
    if more.rounds or more.measured:
        yield from transaction.fetch(more, known)


def _outcome(command: Command[Any], uow: UnitOfWork) -> CommandOutcome:
    before = uow.n_writes
    try:
        return command(uow), None
    except Unavailable:  # concerns the batch, not this command: the transaction may be lost
        raise
    except Problem as problem:
        if uow.n_writes != before:
            raise WroteThenFailed from problem
        return None, problem
