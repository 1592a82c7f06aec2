"""The experiments (docs/model.md 8), a module each, named as in `EXPERIMENTS`.

Begin with `framework/experiment.py`, then any experiment. The rules of all claims are in
docs/claims.toml.
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
    "sensitivity",
    "cohort",
)


def load_experiment(name: str) -> "Experiment":
    """Import the module of an experiment and return the experiment.

    Raises
    ------
    KeyError
        There is no experiment of that name.
    """
    if name not in EXPERIMENTS:
        raise KeyError(name)
    experiment: Experiment = import_module(f"clients.experiments.{name}").EXPERIMENT
    return experiment
