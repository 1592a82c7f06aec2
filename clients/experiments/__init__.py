"""The paper's experiments, a file each: a name in `EXPERIMENTS` is a module of the same name.

Begin with `framework/experiment.py`, then any experiment; the rules are in docs/claims.toml.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clients.experiments.framework.experiment import Experiment

EXPERIMENTS = (
    "tuning",
    "recovery",
    "data_poor",
    "data_rich",
    "random_w",
    "unknown_delay",
    "classic_ucb",
    "rip",
    "matrix_rip",
    "growth",
    "dimensions",
    "sum_w",
    "two_regrets",
    "delay",
    "theta_error",
    "lasso_error",
    "hanson_wright",
    "ablation",
)


def load_experiment(name: str) -> "Experiment":
    """Import the experiment of one of `EXPERIMENTS`.

    Raises
    ------
    KeyError
        No experiment of that name.
    """
    if name not in EXPERIMENTS:
        raise KeyError(name)
    experiment: Experiment = import_module(f"clients.experiments.{name}").EXPERIMENT
    return experiment
