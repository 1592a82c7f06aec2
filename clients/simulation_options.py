"""What a simulation is told: the options of `lhb simulate`, and the fields of its settings.

The engine is not loaded here, so that the command line can list the options without it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Annotated as Told
from typing import Any, get_args, get_type_hints

from typer import Option


def patterns() -> list[str]:
    """Return the patterns of lag weights."""
    from lhb_engine.simulation.environment import PATTERNS

    return list(PATTERNS)


ROUNDS = "T: number of rounds (2000); with --users their mean number for a user (40)"
PATTERN = "flat | spiking | random | single | early_mass | late_mass"
PROFILES = "shared: all features pay at the same lags; each: at lags of its own"


@dataclass(frozen=True)
class WorldOptions:
    """Some algorithms on the same `seeds` worlds."""

    algorithms: tuple[str, ...]
    rounds: Told[int, Option(help=ROUNDS, min=1)] = 2000
    horizon: Told[int, Option(help="h: number of lags", min=1)] = 100
    dim: Told[int, Option(help="d: numbers in a context", min=1)] = 5
    arms: Told[int, Option(help="K: number of arms", min=1)] = 10
    noise: Told[float, Option(help="standard deviation of the noise", min=0)] = 0.1
    weights: Told[str, Option(help=PATTERN, autocompletion=patterns)] = "flat"
    sparsity: Told[int, Option(help="s: nonzero lag weights", min=1)] = 5
    seeds: Told[int, Option(help="Number of worlds.", min=1)] = 5
    first_seed: Told[int, Option(help="Seed of the first world.", min=0)] = 0
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    weather: Told[
        float,
        Option(help="Effect of a number that comes with each round, told to anytime", min=0),
    ] = 0.0
    profiles: Told[str, Option(help=PROFILES)] = "shared"


@dataclass(frozen=True)
class UserOptions:
    """Worlds of many users, who come and go."""

    users: Told[int, Option(help="Users who come and go; one session serves them all.", min=1)] = (
        100
    )
    lengths: Told[
        str, Option(help="Law of a user's rounds: fixed | geometric | uniform | pareto")
    ] = "fixed"
    arriving: Told[
        float, Option(help="Users who arrive between two rounds of a user, on average")
    ] = 1.0
    spread: Told[
        float, Option(help="How far the users' thetas are apart: tangent of the angle", min=0)
    ] = 0.0
    levels: Told[
        float, Option(help="Standard deviation of the users' levels, in units of reward", min=0)
    ] = 0.0
    groups: Told[
        int, Option(help="Groups of users: that of a user stands before the : in keys", min=0)
    ] = 0
    between: Told[
        float, Option(help="How far the groups' thetas are apart, as --spread", min=0)
    ] = 0.0


class TransportOptions:
    """What happens to rewards on their way, as `Transport` of the engine has it."""

    delay: Told[
        float, Option(help="Mean delay of a reward; 1: between two rounds of a user", min=0)
    ] = 0.0
    lost: Told[float, Option(help="Share of rewards that never come", min=0, max=1)] = 0.0
    doubled: Told[float, Option(help="Share that come twice", min=0, max=1)] = 0.0
    reordered: Told[
        float, Option(help="Share that come after the one behind them", min=0, max=1)
    ] = 0.0


def parameters(*kinds: type) -> Iterator[Parameter]:
    """Yield the parameters of a command that takes these options.

    What depends on `users`, and itself, is None where it is not given.
    """
    for kind in kinds:
        for name, hint in get_type_hints(kind, include_extras=True).items():
            if described := getattr(hint, "__metadata__", None):
                default, taken = getattr(kind, name), get_args(hint)[0]
                if name in ("rounds", "users"):
                    default, taken = None, taken | None
                hint = Told[taken, *described]
                yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
