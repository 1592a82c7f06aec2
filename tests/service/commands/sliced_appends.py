"""Logs that are appended in slices, on both databases, and what a reader sees of them."""

from typing import Any

import numpy as np

from service.commands.append_history import Log
from service.commands.append_history import append_history as appended
from tests.service.commands.test_append_history import log
from tests.service.service_harness import ServiceHarness


def slices_of(n: int) -> dict[str, Any]:
    """What a log says whose slices have n rounds, however long they take."""
    return {"slice_rounds": n, "slice_seconds": 60.0}


def begun(harness: ServiceHarness, n: int, abandoned: list[Any], **more: Any) -> Any:
    """A log of 20 rounds of which n slices of 6 are written; the write, and its next command."""
    contexts, rewards = log(20)
    body = Log(harness.key, "", np.array(contexts), rewards, "x", bytes(16), **slices_of(6))
    write = appended(body, harness.agents, lambda *left: abandoned.append(left))
    command = write.send(None)
    for _ in range(n):
        command = write.send(harness.run(command))
    return write, command


def seen(harness: ServiceHarness, trajectory: str = "") -> Any:
    """All that a reader sees."""
    with harness.store.reader() as reader:
        key = (*harness.key, trajectory)
        session = harness.session
        session.append_token = None
        return (
            session,
            reader.decisions(key, 0, 100),
            reader.measurements(key, 1, 100),
            list(reader.measurement_log(key)),
            [reader.decision(key, event) for event in ("x/1", "x/9", "~4")],
        )
