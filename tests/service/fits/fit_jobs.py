"""What fitting processes run in tests: real fits behind a gate, and failures."""

import os
import time
from functools import partial
from pathlib import Path

from lhb_engine.agents.anytime import Anytime
from lhb_engine.history import SIZES
from service.base.problems import ProblemCode, Unavailable
from service.fits.fit_answer import Fitted
from service.fits.job import in_idle_time, run_fit
from service.storage.database_url import open_reader


def gate_of(database_url: str) -> Path:
    """While this file is there, gated fits do not begin."""
    return Path(database_url.removeprefix("sqlite:///") + ".gate")


def tries_of(database_url: str) -> Path:
    """A mark for each starved fit."""
    return gate_of(database_url).with_suffix(".tries")


def gated_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """A real fit, once the gate is open; writes its process id where the test finds it."""
    gate = gate_of(database_url)
    part = gate.with_suffix(".part")
    part.write_text(str(os.getpid()))
    part.replace(gate.with_suffix(".pid"))  # whole, or not there yet
    while gate.exists():
        time.sleep(0.005)
    return run_fit(database_url, tenant, session_id, due, idle_seconds)


def failing_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """Cannot read its data while the gate is there."""
    if gate_of(database_url).exists():
        raise OSError("the disk is on fire")
    return run_fit(database_url, tenant, session_id, due, idle_seconds)


def unreadable_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """Finds the database unreachable while the gate is there, and leaves a mark of each try."""
    if gate_of(database_url).exists():
        with tries_of(database_url).open("a") as file:
            file.write(".")
        code = ProblemCode.STORAGE_UNREACHABLE
        raise Unavailable(code, "the database does not answer", "too many clients")
    return run_fit(database_url, tenant, session_id, due, idle_seconds)


def dying_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """Dies every time."""
    os._exit(9)


def starved_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """Finds no idle time, of which it leaves a mark, and is a real fit without."""
    if idle_seconds:
        with tries_of(database_url).open("a") as file:
            file.write(".")
        in_idle_time(partial(time.sleep, 60.0), 0.1)
    return run_fit(database_url, tenant, session_id, due, idle_seconds)


def summed_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """A real fit in a process where four rounds are many enough to keep sums."""
    Anytime.sizes = SIZES._replace(latest=4)
    return run_fit(database_url, tenant, session_id, due, idle_seconds)


def sleeping_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """Never ends."""
    time.sleep(600)
    return None


def spinning_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """Computes for ever."""
    while True:
        pass


def waiting_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """Gets no processor for a second, and ends."""
    time.sleep(1.0)
    return Fitted(reason="it has run to its end", is_final=True)


def fit_in_parts(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """A real fit in a process where eight slots are many; gated from its second part on."""
    Anytime.sizes = SIZES._replace(n_slots=8, n_positions=8, most_rows=1)
    with open_reader(database_url) as reader:
        kept = reader.last_slot_sums((tenant, session_id), 10**9)
    fit = run_fit if kept is None else gated_fit
    return fit(database_url, tenant, session_id, due, idle_seconds)


def fit_handed_in_late(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """A real fit whose answer waits until the gate is open."""
    answer = run_fit(database_url, tenant, session_id, due, idle_seconds)
    gated_fit(database_url, tenant, "no such session", due, idle_seconds)
    return answer
