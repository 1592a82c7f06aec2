"""The paper's experiments, a file each. A name here is a module of the same name."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clients.experiments.framework.experiment import Experiment

EXPERIMENTS = (
    "recovery",
    "data_poor",
    "data_rich",
    "random_w",
    "unknown_delay",
    "rip",
    "matrix_rip",
    "growth",
    "delay",
    "theta_error",
    "ablation",
)


def load_experiment(name: str) -> "Experiment":
    """The experiment of one of `EXPERIMENTS`.

    Raises
    ------
    KeyError
        No experiment of that name.
    """
    if name not in EXPERIMENTS:
        raise KeyError(name)
    experiment: Experiment = import_module(f"clients.experiments.{name}").EXPERIMENT
    return experiment
