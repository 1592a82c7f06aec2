"""One session for many users against one a user, and when sharing theta stops paying."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band, log_ticks, panels
from clients.experiments.framework.regret_results import by_seed
from clients.experiments.framework.table import Row, Table, markdown
from clients.experiments.framework.worlds import DIM
from clients.simulator import Player
from lhb_engine.blas import one_thread
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate_users
from lhb_engine.simulation.users import UserEnvironment, Visits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPARSITY = 5
SAMPLED = 3  # users who get a session of their own; their mean regret stands for all users'
POOLED, ALONE = "anytime, pooled", "anytime, one session a user"
ORACLE, LIN_UCB = "oracle_w, pooled", "lin_ucb, pooled"
DRAWN = -1.0  # w is flat on a random support, which may hold lag 0


class World(NamedTuple):
    """One world of the experiment, and who plays in it.

    `w_0` is the weight of lag 0; the rest is flat on 5 other lags. `spread` is how far the users'
    thetas are apart (`UserEnvironment`). `seeds` of the scale's seeds are played, at most.
    """

    users: int = 500
    rounds: int = 40
    horizon: int = 20
    w_0: float = DRAWN
    spread: float = 0.0
    labels: tuple[str, ...] = (POOLED, ORACLE, ALONE)
    seeds: int = 20


# what is judged comes first: a run that is stopped has it
WORLDS = (
    World(seeds=40),
    *(World(50, w_0=w_0, labels=(POOLED, LIN_UCB), seeds=40) for w_0 in (0.0, 0.05)),
    *(
        World(50, rounds, spread=spread, labels=(POOLED, ALONE), seeds=40)
        for rounds, spread in ((40, 0.1), (200, 0.1), (200, 1.0))
    ),
    *(
        World(50, rounds, spread=spread, labels=(POOLED, ALONE))
        for rounds, spread in ((40, 0.3), (40, 1.0), (200, 0.3))
    ),
    *(World(n) for n in (10, 100, 1000)),
    *(World(rounds=n) for n in (5, 20, 200)),
    World(horizon=100),
    World(100, 200, 100),
    World(50, w_0=0.3, labels=(POOLED, LIN_UCB)),
    World(10_000, labels=(POOLED, ORACLE), seeds=3),
)
TOY = (
    World(3, 8, 6),
    World(3, 8, 6, w_0=0.0, labels=(POOLED, LIN_UCB)),
    World(3, 8, 6, spread=0.3, labels=(POOLED, ALONE)),
)


def cases(scale: Scale) -> list[Case]:
    """List every world with its agents and seeds."""
    return [
        {
            "users": world.users,
            "rounds": world.rounds,
            "horizon": world.horizon,
            "w_0": world.w_0,
            "spread": world.spread,
            "label": label,
            "seed": seed,
        }
        for world in (TOY if scale.toy else WORLDS)
        for label in world.labels
        for seed in range(min(scale.seeds, world.seeds))
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one agent, always in process, and return its regret over all users."""
    seed, n_users = case["seed"], case["users"]
    world = plain_world(case, scale)
    visits = Visits.draw(n_users, case["rounds"], seed=seed)
    users = UserEnvironment(world, visits, spread=case["spread"])
    with one_thread():
        if case["label"] == ALONE:
            sampled = range(min(SAMPLED, n_users))
            each = [simulate_users("anytime", users.only([u]), seed=seed).regret for u in sampled]
            regret = float(np.mean([own[-1] for own in each])) * n_users
        else:
            name = case["label"].partition(",")[0]
            options = {"weights": world.weights.tolist(), "schedule": "growing"}
            played = simulate_users(
                name, users, seed=seed, options=options if case["label"] == ORACLE else {}
            )
            regret = float(played.regret[-1])
    return [{"regret": regret, "a_round": regret / len(visits)}]


def plain_world(case: Case, scale: Scale) -> LongHorizonEnvironment:
    """Return the world that the users share."""
    horizon, w_0 = case["horizon"], case["w_0"]
    drawn = LongHorizonEnvironment.draw(
        dim=DIM,
        horizon=horizon if w_0 == DRAWN else horizon - 1,
        n_arms=scale.arms,
        noise=scale.noise,
        sparsity=SPARSITY,
        seed=case["seed"],
    )
    if w_0 == DRAWN:
        return drawn
    weights = np.concatenate([[w_0], (1.0 - w_0) * drawn.weights])
    return LongHorizonEnvironment(
        drawn.theta, weights, n_arms=scale.arms, noise=scale.noise, seed=case["seed"]
    )


def name_of(row: Row) -> str:
    """Return the name of a row's world, as the rules have it."""
    name = f"{row['users']} x {row['rounds']}, h={row['horizon']}"
    if row["w_0"] != DRAWN:
        name += f", w_0={row['w_0']:g}"
    return name + (f", spread {row['spread']:g}" if row["spread"] else "")


def named(table: Table) -> Iterator[tuple[str, Table]]:
    """Yield each world's name with its rows."""
    yield from Table(row | {"world": name_of(row)} for row in table).by("world")


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return the regret of the pooled session less `factor` times its rival's."""
    rival = {"oracle": ORACLE, "lin_ucb": LIN_UCB}.get(rule.name, ALONE)
    out = {}
    for name, rows in named(table):
        one, other = rows.where(label=POOLED), rows.where(label=rival)
        if name in rule.settings and len(one) and len(other):
            out[name] = SeedMean(by_seed(one, other, "regret", rule.factor))
    return out


def draw(table: Table, figure: "Figure") -> None:
    """Draw regret a round against users, rounds, w_0 and the spread of theta."""
    plain = {"horizon": 20, "w_0": DRAWN, "spread": 0.0}
    differing = apart(table, "spread", 0.0)
    drawn: list[tuple[str, str, Table]] = [
        ("users", "users, 40 rounds each", table.where(rounds=40, **plain)),
        ("rounds", "rounds a user, 500 users", table.where(users=500, **plain)),
        ("w_0", "weight of lag 0, 50 users x 40", apart(table, "w_0", DRAWN)),
        ("spread", "spread of theta, 50 users x 40", differing.where(rounds=40)),
        ("spread", "spread of theta, 50 users x 200", differing.where(rounds=200)),
    ]
    shown = [part for part in drawn if len(part[2])]
    for axes, (x, words, rows) in zip(panels(figure, len(shown), 3), shown, strict=True):
        for place, label in enumerate((POOLED, ORACLE, ALONE, LIN_UCB)):
            own = rows.where(label=label)
            if len(own):
                band(axes, own, x, "a_round", label, place)
        if x in ("users", "rounds"):
            log_ticks(axes, rows.column(x).tolist())
        axes.set(yscale="log", xlabel=words)
        axes.legend(fontsize=6)
    figure.supylabel("regret a round", fontsize=8)


def apart(table: Table, name: str, usual: float) -> Table:
    """Return the rows in which a column has another value than the usual one."""
    return Table(row for row in table if row[name] != usual)


def details(table: Table) -> str:
    """Return every world's mean regret for each agent, and ratios to the pooled session."""
    rows: list[list[str]] = []
    for name, own in named(table):
        by_label = dict(own.by("label"))
        pooled = by_label[POOLED].mean("regret") if POOLED in by_label else None
        cells: list[Any] = []
        for label in (POOLED, ORACLE, ALONE, LIN_UCB):
            mean = by_label[label].mean("regret") if label in by_label else None
            over = f" ({mean.value / pooled.value:.2g})" if mean and pooled else ""
            cells.append("" if mean is None else f"{mean}{over if label != POOLED else ''}")
        rows.append([name, str(len(own.values("seed"))), *cells])
    heads = ("users x rounds", "seeds", POOLED, ORACLE, ALONE, LIN_UCB)
    about = "Regret over all users, mean ± standard error; in brackets as a multiple of the pooled."
    return f"{about}\n\n{markdown(heads, rows)}"


EXPERIMENT = Experiment(
    name="cohort",
    title="One session for many users",
    source="ours",
    choices="d=5, flat s=5; users arrive at random, one in the mean time between two rounds of a "
    "user; oracle_w refits at rounds growing by 1.2; a session a user is played for 3 users of "
    "each world; a spread of s turns each user's theta by about atan(s); always in process",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    details=details,
    varies=False,
    figure_size=(9.5, 5.6),
)
