"""What is read often costs as much with many rounds, or many sessions, as with few."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from service.commands.append_history import Log, append_history
from service.session.trial import Trial
from service.storage.sqlite.store import SqliteReader
from tests.contracts.sample_rows import commit, session
from tests.service.service_harness import ServiceHarness

READ = 50  # rounds
READS: dict[str, Callable[..., Any]] = {
    "rounds": lambda reader, *place: list(reader.window_rounds(*place, 3)),
    "measurements": lambda reader, *place: list(reader.window_measurements(*place, 3, 10**9)),
    "new measurements": lambda reader, key, first, last: list(
        reader.measurements_after(key, first - 1, last)
    ),
    "taken": lambda reader, *place: reader.taken(*place),
    "chosen": lambda reader, *place: list(reader.chosen(*place)),
    "arrivals": lambda reader, *place: reader.arrivals(*place),
}


def thousands_of_steps(harness: ServiceHarness, read: Callable[..., Any]) -> int:
    """Of SQLite's virtual machine, for the last rounds of the session."""
    session, n_steps = harness.session, 0

    def count() -> None:
        nonlocal n_steps
        n_steps += 1

    with harness.store.reader() as reader:
        assert isinstance(reader, SqliteReader)
        reader.connection.set_progress_handler(count, 1000)
        read(reader, session.key, session.n_rounds - READ + 1, session.n_rounds)
        reader.connection.set_progress_handler(None, 0)
    return n_steps


@pytest.mark.parametrize("trajectories", [("",), ("a",), ("a", "b")])
def test_steps_do_not_grow_with_the_rounds_before(
    harness: ServiceHarness, trajectories: tuple[str, ...]
) -> None:
    harness.create(dim=2)
    steps = []
    for n_rounds in (100, 3000):
        for trajectory in trajectories:
            log = Log(harness.key, trajectory, np.ones((n_rounds, 2)), [0.5] * n_rounds, None)
            harness.run_large(append_history(log, harness.agents, lambda *left: None))
        steps.append({name: thousands_of_steps(harness, read) for name, read in READS.items()})
    assert all(steps[1][name] <= 2 * steps[0][name] + 2 for name in READS), steps


def test_looks_at_comparisons_do_not_grow_with_other_sessions(harness: ServiceHarness) -> None:
    """Every server looks every 5 s, and every scrape of its metrics."""
    commit(harness.store, *(session(f"trial{i}", trial=Trial(), n_rounds=1) for i in range(3)))
    steps = []
    for first, last in ((0, 10), (10, 1000)):
        commit(harness.store, *(session(f"s{i}", n_rounds=1) for i in range(first, last)))
        steps.append(0)

        def count() -> None:
            steps[-1] += 1

        with harness.store.reader() as reader:
            assert isinstance(reader, SqliteReader)
            reader.connection.set_progress_handler(count, 1)
            assert len(reader.unsummed(("", ""), 10)) == 3
            assert reader.guards_tripped() == [("t", 0)]
            reader.connection.set_progress_handler(None, 0)
    assert 0 < steps[1] <= 1.1 * steps[0], steps
