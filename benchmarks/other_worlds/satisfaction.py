"""Long-term satisfaction (RecSim's choc and kale): clickbait is watched now, and tires the user.

A user is a trajectory of 60 rounds, ten items a round, the reward the logarithm of the seconds
watched. RecSim wants gin, Dopamine and TensorFlow for parts that are not used here: modules without
content stand in their place.
"""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.other_worlds.one_session import OneSession

SENSITIVITY = 0.1
USERS, JUDGED = 40, 20
LATER = 30  # last rounds of a user, which are judged
HORIZON = 20
N_ITEMS = 10


def world_of(seed: int) -> Any:
    """Return RecSim's environment."""
    import gymnasium

    spec = importlib.util.find_spec("recsim")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'recsim'", name="recsim")
    gin: Any = ModuleType("gin")
    gin.configurable, gin.tf = (lambda given: given), ModuleType("gin.tf")
    stand_ins = {"gin": gin, "gin.tf": gin.tf, "gym": gymnasium, "gym.spaces": gymnasium.spaces}
    for folder in ("environments", "simulator"):
        module: Any = ModuleType(f"recsim.{folder}")
        module.__path__ = [f"{one}/{folder}" for one in spec.submodule_search_locations]
        stand_ins[module.__name__] = module
    for name, module in stand_ins.items():
        sys.modules.setdefault(name, module)
    model: Any = importlib.import_module("recsim.environments.long_term_satisfaction")
    environment: Any = importlib.import_module("recsim.simulator.environment")
    users = model.LTSUserModel(1, model.LTSUserState, model.LTSResponse, seed=seed)
    users._user_sampler = model.LTSStaticUserSampler(sensitivity=SENSITIVITY, seed=seed)
    items = model.LTSDocumentSampler(seed=seed)
    return environment.Environment(users, items, N_ITEMS, 1, resample_documents=True)


def play(who: str, seed: int) -> float:
    """Return what the last users' last rounds earn, a user, in the mean."""
    np.random.seed(seed)  # RecSim draws from numpy's own state  # noqa: NPY002
    world, chance, earned = world_of(seed), np.random.default_rng(seed), []
    session = OneSession(1, HORIZON, seed) if who == "`anytime`" else None
    for user in range(USERS):
        _, items = world.reset()
        values: list[float] = []
        done = False
        while not done:
            bait = np.array([float(item[0]) for item in items.values()])
            if session is not None:
                arm = session.decide(f"{user:03d}", bait[:, None])
            elif who == "chance":
                arm = int(chance.integers(N_ITEMS))
            else:
                arm = int(bait.argmin() if who == "the least clickbait" else bait.argmax())
            _, items, (watched,), done = world.step([arm])
            values.append(float(np.log(watched.engagement)))
            if session is not None:
                session.reward(f"{user:03d}", values[-1])
        earned.append(sum(values[-LATER:]))
    return float(np.mean(earned[-JUDGED:]))


def run(seeds: range) -> list[tuple[str, list[float]]]:
    """Return who plays, and what each earns on each seed."""
    who = ("chance", "the most clickbait", "the least clickbait", "`anytime`")
    return [(name, [play(name, seed) for seed in seeds]) for name in who]
