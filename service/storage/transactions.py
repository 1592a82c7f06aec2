"""The storage port: a store and its transactions, as the use cases need them.

A batch of commands is one transaction of a few bulk operations: `fetch` locks and reads rows by
key, `write` inserts and updates them, `commit` makes the changes durable. Hidden rows, and those of
old rounds, are deleted a few at a time. An adapter runs the statements.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any, Protocol

from service.session.records import HiddenRows, Message, SessionKey
from service.storage.ports import Changes, DropCursor, Dropped, EraseCursor, Keys, KnownRows
from service.storage.reader import FOR_EVER, Reader

# key columns of each table, after the session's, and the bytes of a row. Tables of rounds come
# first; the rows of the others belong to the session as a whole
ROUNDS = {
    "decisions": (("trajectory", "round", "number"), "length(context) + length(scores)"),
    "measurements": (("trajectory", "first_round", "number"), "0"),
    "voids": (("trajectory", "round", "position"), "0"),
}
TABLES = {
    **ROUNDS,
    "estimates": (("number",), "length(manifest) + coalesce(length(estimate), 0)"),
    "trajectories": (("trajectory", "n_rounds"), "0"),
    "slot_sums": (("trajectory", "last_slot"), "length(sums)"),
    "lift_units": (("since", "trajectory", "block"), "0"),
}
Statement = tuple[str, Sequence[Any]]  # a statement's name, and its values
Steps = Generator[Any, Any, None]  # yields each wait; the transaction that made it carries it out
InThread = Callable[[Callable[[Any], None], Any], Awaitable[None]]  # calls f(x) in a thread
MAX_READS = 4  # concurrent reads in a process; each has a thread
MAX_EXPORTS = 8  # concurrent exports besides; each keeps its snapshot open until it is sent
MAX_STREAMS = 100  # concurrent streams of changes; each reads once a second


def statements() -> dict[str, str]:
    """Return, for each table, a statement that finds the next rows and one that deletes them.

    Both read from the primary key's index, from the last range on, so that PostgreSQL does not read
    the entries of deleted rows again, which stay until a vacuum. Both end at a number of rows: at
    an upper bound of several columns PostgreSQL goes on to the end of the trajectory.
    """
    texts = {}
    for table, (columns, size) in TABLES.items():
        key, n = ", ".join(columns), len(columns)
        after = ", ".join(f"${3 + j}" for j in range(n))
        rows = f"from {table} where tenant = $1 and session_id = $2 and ({key}) > ({after})"
        rows += f" order by {key} limit ${3 + n}"
        whole = f"tenant, session_id, {key}"
        texts[f"next_{table}"] = f"select {key}, {size} {rows}"
        texts[f"erase_{table}"] = f"delete from {table} where ({whole}) in (select {whole} {rows})"
    return texts


@dataclass(frozen=True, slots=True)
class Slices:
    """The most that one call deletes: a commit of a few milliseconds."""

    rows: int = 256
    n_bytes: int = 2**18
    page: int = 128  # rows that are looked at together
    pages: int = 8
    trajectories: int = 32  # each takes six statements


class Transaction(ABC):
    """The writer's open transaction.

    Operations that may wait return a generator of steps. `run` drives it in a thread, `run_async`
    in the event loop. `reader` sees committed rows and this transaction's own writes; it may block.
    """

    slices: Slices
    reader: Reader

    @abstractmethod
    def fetch(self, keys: Keys, rows: KnownRows) -> Steps:
        """Lock sessions and trajectories in key order, and read the rows of all keys.

        `rows` gets the rows, and None for each key without a row. Only the transaction's first
        fetch waits for locked sessions; a later one raises `Contended` where another process holds
        a session.
        """

    @abstractmethod
    def write(self, changes: Changes) -> Steps:
        """Insert and update rows, with one bulk statement per table where possible."""

    @abstractmethod
    def commit(self, changes: Changes) -> Steps:
        """Write the remaining changes and commit; they are durable when the steps end."""

    @abstractmethod
    def run(self, steps: Steps) -> None:
        """Run steps in the calling thread, blocking it."""

    @abstractmethod
    async def run_async(self, steps: Steps, in_thread: InThread) -> None:
        """Run steps in the event loop; waits for anything but a socket go through `in_thread`."""

    @abstractmethod
    def rollback(self) -> None:
        """Roll back, and drop from the caches every row that the transaction used."""

    @abstractmethod
    def _execute(self, name: str, *values: Any) -> Any:
        """Run a named statement, and return its cursor."""

    def _read(self, name: str, *values: Any) -> list[Any]:
        rows: list[Any] = self._execute(name, *values).fetchall()
        return rows

    def _read_all(self, statements: Iterable[Statement]) -> list[list[Any]]:
        return [self._read(name, *values) for name, values in statements]

    def hidden_rows(self, key: SessionKey) -> HiddenRows | None:
        """Lock and return the note of a session's hidden rows; it may block.

        None is also returned if another process holds the note.
        """
        row = self._execute("hidden_rows", *key).fetchone()
        return None if row is None else HiddenRows(*row)

    def due_message(self, tenant: str, webhook: str, now: float) -> Message | None:
        """Lock and return a webhook's message whose attempt is due; it may block.

        Messages that another process holds are passed over.
        """
        row = self._execute("due_message", tenant, webhook, now).fetchone()
        return None if row is None else Message(*row)

    def erase(self, hidden: HiddenRows, cursor: EraseCursor | None) -> EraseCursor | None:
        """Delete some hidden rows, and return where to go on; None if none is left. It may block.

        `cursor` is what the last call returned; None begins anew.
        """
        slices = self.slices
        tables = [*ROUNDS, "trajectories"] if hidden.trajectory is not None else list(TABLES)
        if hidden.after_round:
            tables.remove("trajectories")  # it has rounds that are seen
        owner, n, n_bytes = (hidden.tenant, hidden.session_id), 0, 0
        for table in tables[tables.index(cursor[0]) if cursor else 0 :]:
            after = cursor[1] if cursor and cursor[0] == table else _before(hidden, table)
            last, n_before = after, n
            for *key, size in self._read(f"next_{table}", *owner, *after, slices.rows - n):
                is_outside = hidden.trajectory is not None and key[0] != hidden.trajectory
                if is_outside or n_bytes > slices.n_bytes:
                    break
                last, n, n_bytes = tuple(key), n + 1, n_bytes + size
            if last != after:
                self._execute(f"erase_{table}", *owner, *after, n - n_before)
            if n == slices.rows or n_bytes > slices.n_bytes:
                return table, last
        if hidden.trajectory is not None and not hidden.after_round:
            self._execute("erase_units", *owner, hidden.trajectory)
        return None

    def drop(self, key: SessionKey, to: int, n_kept: int, cursor: DropCursor | None) -> Dropped:
        """Delete some rows of rounds that a session has given up; it may block.

        Rounds up to position `to` are given up; such rounds stay if the one `n_kept` rounds later
        in their trajectory is not given up. With `n_kept` 0 decisions go alone: values are of no
        round of theirs. `cursor` is that of the last call; None begins anew.
        """
        slices = self.slices
        ranges: dict[str, list[int]] = {}  # the first and the last round to go, by trajectory
        n = size = 0
        place, following = (cursor or ("", 0))[:2], cursor
        for _ in range(slices.pages):
            rows = self._read("next_dropped", *key, *place, n_kept, slices.page)
            kept_of, is_full = None, False
            for name, round, needed_to, n_bytes in rows:
                is_full = n == slices.rows or size > slices.n_bytes
                is_full = is_full or (len(ranges) == slices.trajectories and name not in ranges)
                if is_full:
                    break
                place = name, round
                if name == kept_of:
                    continue
                if needed_to > to:
                    kept_of = name
                    continue
                ranges.setdefault(name, [round, round])[1] = round
                n, size = n + 1, size + n_bytes
            if len(rows) < slices.page and not is_full:
                following = None
                break
            if place[0] == kept_of:
                place = place[0], FOR_EVER  # later rounds of this trajectory are needed, too
            following = *place, 0
            if is_full:
                break
        statements: list[Statement] = []
        for name, (first, last) in ranges.items():
            low = cursor[2] if cursor and cursor[0] == name else 0
            end = last if n_kept else 0  # of the rounds whose values and voids go
            statements += [
                ("dropped_complete", (*key, name, low, first, end)),
                ("drop_measurements", (*key, name, low, end)),
                ("drop_voids", (*key, name, first, end)),
                ("settle_trajectory", (*key, name, last)),
                ("drop_decisions", (*key, name, first, last)),
                ("goes_on", (*key, name, low, end)),
            ]
        answers = self._read_all(statements)
        n_complete = sum(int(rows[0][0]) for rows in answers[0::6])
        n_measurements = sum(map(len, answers[1::6] + answers[2::6]))
        if following is not None and following[0] in ranges:
            name, last, _ = following
            if last == ranges[name][1]:
                [[low]] = answers[-1]
                following = name, last, last + 1 if low is None else low
        return Dropped(following, n, n_measurements, n_complete)


def _before(hidden: HiddenRows, table: str) -> tuple[Any, ...]:
    """Return a key just before the first hidden row of a table."""
    if hidden.trajectory is not None and table in ROUNDS:
        return hidden.trajectory, hidden.after_round, FOR_EVER
    if hidden.trajectory is not None:
        return hidden.trajectory, -1
    columns, _ = TABLES[table]
    first = ("" if name == "trajectory" else 0 for name in columns[:-1])
    return (*first, -1)


ONE_BY_ONE = [(one.name, one.metadata["statements"]) for one in fields(Changes) if one.metadata]


def write_few(changes: Changes) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the name of a statement and its values, for one row after the other."""
    for key, slot in changes.dropped_slots:
        yield "drop_slots", (*key, slot)
    for kind, statements in ONE_BY_ONE:
        for row in getattr(changes, kind):
            for name in statements:
                yield name, row


class Store(Protocol):
    """A database. One thread at a time uses the writer; any thread may use a reader.

    `is_local`: it is in this process, and reads are fast enough for the event loop.
    `transaction_seconds`: processor time that the commands of a transaction take; to read and to
    write their rows comes on top.
    """

    is_local: bool
    transaction_seconds: float
    slices: Slices

    def begin(self, *, wait: bool = True) -> Transaction:
        """Open the writer's transaction; `wait` for another program's lock, or to connect again.

        Raises `Unavailable` where the transaction cannot be opened, or not without waiting.
        """

    async def take_turn(self) -> None:
        """Wait while others have their turn, where batches would wait for each other's rows."""

    def reader(self) -> AbstractContextManager[Reader]:
        """Open a reader on a snapshot of the committed rows."""

    def close(self) -> None:
        """Close all connections and release locks."""
