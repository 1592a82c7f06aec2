"""What a correction of an old value, or an old void, costs the next fit, however rounds close.

Rounds, or slots, of one trajectory are written straight to the store, and two fits keep sums. So it
is in three sessions; in one of them a value of round 10 is then corrected, in one its decision is
voided. The next fits of all are timed in turns. Beside the whole stands what a fit reads:
statements, rows laid out, and their moments. The chains take another path.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import process_time, thread_time
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.clock_fits import AT_ONCE, DIM, SECONDS, Ask, Rows, Writing
from benchmarks.fits import reading_told_apart
from service.commands.decisions import void_decision
from service.commands.rewards import ReceiveRewards
from service.commands.sessions import create_session
from service.fits import prepared_fit
from service.fits.fit_answer import Fitted
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.rounds.reward import Reward
from service.rounds.slot_sums import keep_slots
from service.session.records import SessionKey
from service.storage.database_url import open_store
from service.writer.agent_cache import Agents
from service.writer.group_commit import GroupCommit

HORIZON, ROUND, TIMES = 20, 10, 9
CLOSINGS: dict[str, dict[str, Any]] = {
    "asked": {},
    "summed": {"reward_mode": "sum", "reward_wait_seconds": 60},
    "defaulted": {"default_reward": 0.0, "reward_wait_seconds": 60},
    "clock": {"clock": {"slot_seconds": SECONDS, "start": 0.0, "totals": "all"}},
}
HEADER = (
    "| closing | rounds | fit, s | read, ms | corrected, s | read, ms | more | void, s | more |"
    "\n|-|-|-|-|-|-|-|-|-|"
)


def size(
    closing: str,
    n_rounds: int,
    database: str | None = None,
    at_once: int = AT_ONCE,
    n_times: int = TIMES,
) -> dict[str, Any]:
    """Time the next fit without, with a correction, with a void, in turns: the least CPU."""
    rows = Rows(n_rounds + at_once, 1, 0, "all")
    with tempfile.TemporaryDirectory() as folder:
        url = database or f"sqlite:///{Path(folder) / 'bench.db'}"
        store, agents = open_store(url), Agents()
        commit = GroupCommit(
            store,
            after_commit=lambda effects: None,
            on_rollback=agents.forget,
            clock=lambda: float(SECONDS * (n_rounds + 2 * at_once)),
        )

        def run(command: Any) -> Any:
            [(result, error)], _ = commit.run_in_thread([command])
            if error is not None:
                raise error
            return result

        def made(key: SessionKey, due: Any) -> Fitted:
            while (answer := run_fit(url, *key, due, 0.0)) is not None and answer.is_part:
                assert answer.settled is not None
                run(keep_slots(key, answer.settled))
            assert answer is not None
            assert answer.estimate is not None, answer.reason
            return answer

        def ready(value: float | str | None) -> tuple[SessionKey, Any]:
            """Return a session whose fits go on from sums, and its next fit."""
            asked = {"algorithm": "anytime", "dim": DIM, "horizon": HORIZON, "seed": 1}
            session, _ = run(create_session("", {**asked, **CLOSINGS[closing]}, True))
            key: SessionKey = session.key
            for start in range(1, n_rounds + 1, at_once):
                slots = range(start, min(start + at_once, n_rounds + 1))
                run(Writing(key, agents, slots, rows))
            begun = [*range(n_rounds + 1, n_rounds + at_once + 1, at_once // 2), None]
            for begin in begun:
                due = run(Ask(key, agents))
                run(FinishFit(key, due, made(key, due), agents))
                if begin is not None:
                    run(Writing(key, agents, range(begin, begin + at_once // 2), rows))
            if isinstance(value, str):
                run(void_decision(key, "", f"~{ROUND}", agents))
            elif value is not None:
                run(ReceiveRewards(key, [correction(closing, value)], agents))
            return key, run(Ask(key, agents))

        def timed(key: SessionKey, due: Any) -> tuple[float, float]:
            began = process_time()
            with reading_told_apart() as spent, _reading_counted(spent):
                made(key, due)
            return process_time() - began, spent["seconds"] * 1e3

        both = [ready(value) for value in (None, 5.0, "void")]
        found = np.array([[timed(*one) for one in both] for _ in range(n_times)])
        store.close()
    least = found.min(axis=0)
    names = ("fit", "fit_reads_ms", "corrected", "corrected_reads_ms", "void", "void_reads_ms")
    numbers = dict(zip(names, least.ravel().tolist(), strict=True))
    more, more_void = (least[1:, 1] - least[0, 1]).tolist()
    return {
        "closing": closing,
        "n_rounds": n_rounds,
        **numbers,
        "more_ms": more,
        "more_void_ms": more_void,
    }


def _reading_counted(spent: dict[str, float]) -> Any:
    """Count the CPU seconds of `read_fit`, too."""
    whole = prepared_fit.read_fit

    def read(*args: Any, **options: Any) -> prepared_fit.ReadFit:
        began, before = thread_time(), spent["seconds"]
        found = whole(*args, **options)
        spent["seconds"] = before + thread_time() - began
        return found

    return patch.object(prepared_fit, "read_fit", read)


def correction(closing: str, value: float) -> Reward:
    """Return another value of an early round; where values add up, one more."""
    if closing == "summed":
        return Reward(value, "", round=ROUND, reward_id="late")
    if closing != "clock":
        return Reward(value, "", round=ROUND, reward_id="new", correct=True)
    since, until = (datetime.fromtimestamp(SECONDS * n, UTC) for n in (ROUND - 1, ROUND))
    return Reward(value, "", since=since, until=until, reward_id="new", correct=True)
