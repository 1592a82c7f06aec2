"""The agents, an algorithm a file, and the registry `ALGORITHMS`.

Begin with `base.py`, the interface. A new algorithm is a file here and an entry in `ALGORITHMS`.
"""

from dataclasses import fields
from typing import Any

from lhb_engine.agents.ad_lasso import ADLasso
from lhb_engine.agents.anytime import Anytime
from lhb_engine.agents.base import Agent, Choice
from lhb_engine.agents.doubling_lasso import DoublingLasso
from lhb_engine.agents.lin_ucb import LinUCB
from lhb_engine.agents.options import OptionError, Options
from lhb_engine.agents.oracle import Oracle
from lhb_engine.agents.oracle_w import OracleW
from lhb_engine.agents.sa_gd import SAGD
from lhb_engine.agents.sw_mp import SWMP
from lhb_engine.agents.ucb_mp import UCBMP
from lhb_engine.agents.uniform import Uniform

ALGORITHMS: dict[str, type[Agent]] = {
    agent.name: agent
    for agent in (
        Anytime,
        ADLasso,
        DoublingLasso,
        SAGD,
        SWMP,
        UCBMP,
        LinUCB,
        Uniform,
        OracleW,
        Oracle,
    )
}


def make_options(algorithm: str, options: dict[str, Any]) -> Options:
    """Return the checked options of an algorithm; those left out have their defaults.

    Raises `KeyError` where the algorithm is unknown, `OptionError` where an option is, or is out of
    range.
    """
    options_type = ALGORITHMS[algorithm].options_type
    names = {f.name for f in fields(options_type)}
    for name in options:
        if name not in names:
            listed = ", ".join(sorted(names)) or "no options"
            raise OptionError(name, f"unknown option; {algorithm} takes {listed}")
    return options_type(**options)


def make_agent(algorithm: str, *, dim: int, horizon: int, **options: Any) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    algorithm : str
        A name in `ALGORITHMS`.
    dim : int
        Length of a context.
    horizon : int
        Number of lags h.
    **options
        The algorithm's options.

    Raises
    ------
    KeyError
        The algorithm is unknown.
    OptionError
        An option is unknown or out of range, or does not suit `dim`.
    """
    return ALGORITHMS[algorithm](dim, horizon, make_options(algorithm, options))


__all__ = ["ALGORITHMS", "Agent", "Choice", "OptionError", "Options", "make_agent", "make_options"]
