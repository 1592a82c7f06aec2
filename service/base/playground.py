"""The playground: one agent in one small simulated world, played by the engine in its own process.

The playground is closed unless `LHB_PLAYGROUND` opens it. Worlds are bounded, one is played at a
time, and a play that takes longer than `PLAY_SECONDS` is stopped.
"""

import os
from typing import Annotated, Any

import numpy as np
from pebble import ProcessExpired
from pydantic import FailFast, Field, with_config
from typing_extensions import TypedDict

from service.base.field_types import STRICT, Seed
from service.base.problems import Problem, ProblemCode
from service.base.process_pool import NotBegun, Processes

PLAY_SECONDS = 20.0
START_SECONDS = 60.0  # until the process has begun
N_POINTS = 250  # of a curve that is answered
Weight = Annotated[float, Field(ge=-10, le=10)]


@with_config(STRICT)
class PlaygroundBody(TypedDict):
    """The world to play, and who plays it."""

    lag_weights: Annotated[list[Weight], Field(min_length=1, max_length=40), FailFast()]
    noise: Annotated[float, Field(ge=0, le=100)]
    arms: Annotated[int, Field(ge=2, le=20)]
    dim: Annotated[int, Field(ge=1, le=8)]
    rounds: Annotated[int, Field(ge=20, le=2000)]
    seed: Seed


def limits() -> dict[str, Any]:
    """Return the largest world, for the page's form."""
    return {"lags": 40, "arms": 20, "dim": 8, "rounds": 2000, "noise": 100}


def play(body: PlaygroundBody) -> dict[str, Any]:
    """Play `anytime` and uniform choices in the same world.

    Returns `round`, and the cumulative regret `agent` and `uniform` at these rounds (in units of
    reward); `fits`, each with its last round, theta and lag weights; the true `theta`.
    """
    from lhb_engine.blas import one_thread
    from lhb_engine.simulation.environment import LongHorizonEnvironment
    from lhb_engine.simulation.play import simulate

    weights, seed = np.array(body["lag_weights"]), body["seed"]
    n_rounds, dim = body["rounds"], body["dim"]
    drawn = LongHorizonEnvironment.draw(dim=dim, horizon=1, sparsity=1, seed=seed)
    world = LongHorizonEnvironment(
        drawn.theta, weights, n_arms=body["arms"], noise=body["noise"], seed=seed
    )
    with one_thread():
        learner = simulate("anytime", world, n_rounds=n_rounds, seed=seed)
        uniform = simulate("uniform", world, n_rounds=n_rounds, seed=seed)
    shown = np.unique(np.linspace(0, n_rounds - 1, N_POINTS).astype(np.int64))
    return {
        "round": (shown + 1).tolist(),
        "agent": learner.regret[shown].tolist(),
        "uniform": uniform.regret[shown].tolist(),
        "theta": world.theta.tolist(),
        "fits": [
            {
                "round": fit.last_round,
                "theta": fit.theta.tolist(),
                "lag_weights": np.asarray(fit.lag_weights).tolist(),
            }
            for fit in learner.estimates
            if fit.theta is not None
        ],
    }


def _begin(niceness: int) -> None:
    """Load what plays need, with the smallest world: `PLAY_SECONDS` are for playing alone."""
    os.nice(niceness)
    play({"lag_weights": [1.0], "noise": 1.0, "arms": 2, "dim": 1, "rounds": 20, "seed": 0})


class Playground:
    """One process that plays, started by the first play; `is_busy` says whether it plays.

    The process is as nice as processes that fit: decisions come first.
    """

    seconds = PLAY_SECONDS  # the most of a play

    def __init__(self, niceness: int) -> None:
        self._processes = Processes(1, (_begin, niceness), START_SECONDS)
        self.is_busy = False

    async def run(self, body: PlaygroundBody) -> dict[str, Any]:
        """Play a world; 503 overloaded while another is played, or if it takes too long."""
        if self.is_busy:
            detail = "another world is being played; try again in a moment"
            raise Problem(ProblemCode.OVERLOADED, detail, retry_after=2)
        self.is_busy = True
        try:
            played: dict[str, Any] = await self._processes.run(play, body, seconds=self.seconds)
            return played
        except NotBegun:
            detail = "no process plays now; try again in a moment"
            raise Problem(ProblemCode.OVERLOADED, detail, retry_after=2) from None
        except (TimeoutError, ProcessExpired):
            detail = f"this world took longer than {self.seconds:g} s: try fewer rounds"
            raise Problem(ProblemCode.OVERLOADED, detail, "rounds", retry_after=2) from None
        finally:
            self.is_busy = False

    async def close(self) -> None:
        """Stop the process."""
        await self._processes.close()
