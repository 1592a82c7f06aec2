"""Large writes that stop half-way, however fast the machine is, while a file is there."""

import os
import time
from pathlib import Path
from typing import Any

from service.writer.large_writes import LargeWrite, Slices

N_SLICES = 4  # of at most 256 rows each
N_ROUNDS = 81  # of a log, whose slices are shorter on a slow machine


def held(write: LargeWrite[Any]) -> LargeWrite[Any]:
    """The same write; after some slices its whole process waits until the gate is gone."""
    gate, n = Path(os.environ["LHB_TEST_GATE"]), 0
    try:
        command = next(write)
        while True:
            try:
                result = yield command
            except Exception as error:
                command = write.throw(error)
                continue
            n += 1
            is_half_way = n >= N_SLICES and getattr(result, "n", N_ROUNDS) >= N_ROUNDS
            while is_half_way and gate.exists():
                time.sleep(0.01)
            command = write.send(result)
    except StopIteration as done:
        return done.value
    finally:
        write.close()


def hold_writes() -> None:
    """From now on, hold each large write of this process."""
    run = Slices.run

    async def run_held(self: Slices, write: LargeWrite[Any]) -> Any:
        return await run(self, held(write))

    setattr(Slices, "run", run_held)  # noqa: B010
