"""Long-horizon bandits: the mathematics. Arrays in, arrays out; no clock, no I/O.

The names below are the public ones. Each is loaded when it is first asked for: a server imports
this package and starts without scipy. Begin reading with `agents/base.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lhb_engine.agents import Agent as Agent
    from lhb_engine.agents import make_agent as make_agent
    from lhb_engine.design.lagged_design import LaggedDesign as LaggedDesign
    from lhb_engine.estimate import Estimate as Estimate
    from lhb_engine.history import History as History
    from lhb_engine.lasso.group_lasso import GroupLassoResult as GroupLassoResult
    from lhb_engine.lasso.group_lasso import lambda_max as lambda_max
    from lhb_engine.lasso.group_lasso import solve_group_lasso as solve_group_lasso
    from lhb_engine.scikit_learn import LaggedGroupLasso as LaggedGroupLasso
    from lhb_engine.scikit_learn import LaggedGroupLassoCV as LaggedGroupLassoCV
    from lhb_engine.simulation.environment import LongHorizonEnvironment as LongHorizonEnvironment
    from lhb_engine.simulation.play import simulate as simulate

_MODULES = {
    "Agent": "agents",
    "Estimate": "estimate",
    "GroupLassoResult": "lasso.group_lasso",
    "History": "history",
    "LaggedDesign": "design.lagged_design",
    "LaggedGroupLasso": "scikit_learn",
    "LaggedGroupLassoCV": "scikit_learn",
    "LongHorizonEnvironment": "simulation.environment",
    "lambda_max": "lasso.group_lasso",
    "make_agent": "agents",
    "simulate": "simulation.play",
    "solve_group_lasso": "lasso.group_lasso",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
