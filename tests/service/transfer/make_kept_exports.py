"""Make exports that later releases import: `python -m tests.service.transfer.make_kept_exports`.

Each is of a session of forty rounds, written by the code of a release before it goes out. Files of
releases that are out stay as they are.
"""

import gzip
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from service.commands.decisions import request_digest, void_decision
from service.commands.sessions import change_session
from tests.service.service_harness import ServiceHarness
from tests.service.transfer.test_import_forgeries import exported
from tests.service.transfer.test_kept_exports import EXPORTS, first_contexts

VERSION, BEGIN, N = "1.0", 1_795_000_000.0, 40
SESSIONS: dict[str, dict[str, Any]] = {
    "clock": {"clock": {"slot_seconds": 1, "start": None, "totals": "trajectory"}, "horizon": 3},
    "contexts": {"algorithm": "ad_lasso", "keep_contexts": True, "refit": "blocking"},
    "corrections": {},
    "covariates": {"options": {"covariates": ["rain", "sun"]}, "reward_unit": "EUR"},
    "trial": {"algorithm": "ad_lasso", "holdout": {"share": 0.4, "policy": "uniform"}},
    "ucb_mp": {"algorithm": "ucb_mp"},
}


class Story:
    """Forty rounds of one session."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.rng, self.values = name, random.Random(6), [0.0] * 4
        self.harness = ServiceHarness(folder)
        self.harness.now, self.url = BEGIN, f"sqlite:///{folder}/lhb.db"
        self.harness.create(**{"name": "kept", "algorithm": "anytime", **SESSIONS[name]})

    def numbers(self, n: int) -> list[float]:
        return [round(self.rng.gauss(0, 1), 3) for _ in range(n)]

    def told(self) -> bytes:
        """The lines of the file."""
        for number in range(1, N + 1):
            self.harness.now += 0.25
            self.decide(number)
            self.harness.now += 0.25
            if number % 8:
                self.reward(number)
            self.harness.tick()
            if self.harness.session.fit_due is not None:
                self.harness.make_fits(self.url)
            if self.name == "corrections":
                self.correct(number)
        lines = exported(self.harness)
        self.harness.close()
        return lines

    def decide(self, number: int) -> None:
        given = first_contexts() if number == 1 else [self.numbers(2) for _ in range(3)]
        contexts, covariates = np.array(given), None
        if self.name == "covariates" and number > 1:
            covariates = {"rain": self.numbers(1)[0]}
        id = f"e{number}"
        digest = request_digest(contexts, None, None, [], None, covariates)
        more: dict[str, Any] = {"event_id": id, "digest": digest, "covariates": covariates}
        decision = self.harness.decide(contexts=contexts, **more)
        self.values.append(float(decision.selected(2) @ (0.8, -0.6)))

    def reward(self, number: int) -> None:
        value = round(self.values[-1] + 0.5 * self.values[-3] + 0.1 * self.numbers(1)[0], 3)
        if self.name == "clock":  # a slot has two decisions, of which the second ends it
            if number % 2 == 0:
                until = datetime.fromtimestamp(int(self.harness.now), UTC)
                since = datetime.fromtimestamp(int(self.harness.now) - 1, UTC)
                self.harness.reward(value, since=since, until=until)
            return
        more: dict[str, Any] = {}
        if self.name == "covariates" and number % 5 == 0:
            more["covariates"] = {"sun": self.numbers(1)[0]}
        self.harness.reward(value, round=number, reward_id=f"r{number}", **more)

    def correct(self, number: int) -> None:
        key, agents = self.harness.key, self.harness.agents
        if number % 11 == 9:
            self.harness.run(void_decision(key, "", f"e{number}", agents))
        if number % 7 == 0:
            self.harness.reward(
                0.125 * number, round=number - 2, correct=True, reward_id=f"c{number}"
            )
        if number == 21:
            changes = {"options": {"memory": 16, "epsilon": 0.25}}
            self.harness.run(change_session(key, changes))


def files() -> Iterator[tuple[str, bytes]]:
    """Yield each file's name and its lines."""
    for name in SESSIONS:
        with TemporaryDirectory() as folder:
            yield f"{VERSION}-{name}.ndjson.gz", Story(Path(folder), name).told()


if __name__ == "__main__":
    for file, lines in files():
        (EXPORTS / file).write_bytes(gzip.compress(lines, mtime=0))
