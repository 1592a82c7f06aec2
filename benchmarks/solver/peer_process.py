"""Run another package in its own interpreter, and end it when a solve takes too long."""

import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

START_UP = 600.0  # seconds to import, compile and write the dense design down
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}


def ask(
    python: str, peer: str, problem: str, cells: Sequence[dict[str, Any]], repeat: int, limit: float
) -> list[dict[str, Any]]:
    """Let the peer solve each cell.

    Parameters
    ----------
    python, peer, problem : str
        Interpreter; celer, adelie or skglm; problem file.
    cells : sequence of {"lams", "target", "step"}
        The step of the tolerance to begin at.
    repeat : int
    limit : float
        Seconds for one solve and the check of its gap.

    Returns
    -------
    list of {"seconds", "gap", "tol", "step", "outcome"}, one a cell; "outcome" is "met", "late"
    (a solve was not done within the limit), "missed" (no tolerance met the target) or "failed".
    """
    found: list[dict[str, Any]] = [{} for _ in cells]
    while waiting := [i for i, cell in enumerate(found) if not cell]:
        run = _Run(python, peer, problem, [cells[i] for i in waiting], repeat, limit)
        for i, cell in zip(waiting, run.found, strict=True):
            found[i] = cell
        if run.outcome == "late" and run.at < len(waiting):
            late = cells[waiting[run.at]]
            for i in waiting:  # a cell late at one target is not tried at a tighter one
                if cells[i]["lams"] == late["lams"] and cells[i]["target"] <= late["target"]:
                    found[i] = found[i] or _without("late")
    return found


class _Run:
    """One process: the cells it finished, the one at which it stopped, and how it ended."""

    def __init__(
        self,
        python: str,
        peer: str,
        problem: str,
        cells: list[dict[str, Any]],
        repeat: int,
        limit: float,
    ) -> None:
        self.found: list[dict[str, Any]] = [{} for _ in cells]
        self.at = 0
        self.outcome = "failed"
        with tempfile.NamedTemporaryFile("w", suffix=".json") as request:
            json.dump({"file": problem, "cells": cells, "repeat": repeat}, request)
            request.flush()
            script = str(Path(__file__).with_name("peers.py"))
            with subprocess.Popen(
                [python, script, peer, request.name],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=ENVIRONMENT,
            ) as process:
                try:
                    self._follow(process, limit)
                except queue.Empty:
                    process.kill()
        done = self.at if self.outcome == "late" else len(cells)
        outcome = "missed" if self.outcome == "ended" else self.outcome
        for i in range(done):
            self.found[i] = self.found[i] or _without("missed" if i < self.at else outcome)

    def _follow(self, process: subprocess.Popen[str], limit: float) -> None:
        """Read the peer's output, one line a solve."""
        assert process.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        line = lines.get(timeout=START_UP)
        self.outcome = "late"
        while line:
            said = json.loads(line) if line.startswith("{") else {}
            if "cell" in said:
                self.at, done = said.pop("cell"), said.pop("done")
                if said.pop("met"):
                    self.found[self.at] = {**said, "outcome": "met"}
                self.at += done
            line = lines.get(timeout=limit)
        self.outcome = "failed" if process.wait() else "ended"


def _read(stream: IO[str], lines: "queue.Queue[str]") -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _without(outcome: str) -> dict[str, Any]:
    return {"seconds": None, "gap": None, "tol": None, "step": 0, "outcome": outcome}
