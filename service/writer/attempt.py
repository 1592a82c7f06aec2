"""One try at committing a batch: its commands in one transaction, and what came of each."""

from time import perf_counter
from typing import Any

from service.problems import Problem, Unavailable
from service.storage.ports import Keys, Known, Steps, Transaction
from service.writer.command import Command
from service.writer.unit_of_work import Effects, UnitOfWork, prefetch

Commands = list[Command[Any]]
Outcome = tuple[Any, BaseException | None]
Committed = tuple[list[Outcome], list[Effects]]
BRIEF_SECONDS = 0.005  # that a batch may take of the event loop's time


class Spoiled(Exception):
    """A command wrote and then failed: the transaction cannot be kept."""


class Attempt:
    """A batch's commands in one transaction; event loop and thread take turns on it."""

    def __init__(self, transaction: Transaction, commands: Commands) -> None:
        self.transaction = transaction
        self.commands = commands
        self._known = Known()
        self._outcomes: list[Outcome] = []

    def fetch(self, keys: Keys) -> Steps:
        """Return the steps that fetch what the commands announced."""
        return prefetch(self.transaction, keys, self._known)

    def begin(self, now: float) -> None:
        """Begin to run commands, once what they announced is fetched."""
        self._uow = UnitOfWork(self.transaction, self._known, now)

    def run_brief(self, can_read: bool) -> bool:
        """Run commands until one may take long, or all together do.

        Parameters
        ----------
        can_read : bool
            Whether rows that were not announced can be read here.

        Returns
        -------
        bool
            Whether all have been run.
        """
        self._uow.can_read = can_read
        until = perf_counter() + BRIEF_SECONDS
        for command in self.commands:
            if not command.is_brief(self._uow) or perf_counter() > until:
                return False
            self._outcomes.append(_outcome(command, self._uow))
        return True

    def run_rest(self) -> None:
        """Run what is left, in a thread."""
        self._uow.can_read = True
        for command in self.commands[len(self._outcomes) :]:
            self._outcomes.append(_outcome(command, self._uow))

    def commit(self) -> Steps:
        """Return the steps that make everything durable, once all have been run."""
        return self._uow.commit()

    @property
    def committed(self) -> Committed:
        """Outcomes and effects, once they are durable."""
        return self._outcomes, [self._uow.effects]


def announced(commands: Commands) -> Keys:
    """Return the rows that these commands announce."""
    keys = Keys()
    for command in commands:
        command.keys(keys)
    return keys


def _outcome(command: Command[Any], uow: UnitOfWork) -> Outcome:
    before = uow.n_writes
    try:
        return command(uow), None
    except Unavailable:  # no business of this command: the transaction may be gone
        raise
    except Problem as problem:
        if uow.n_writes != before:
            raise Spoiled from problem
        return None, problem
