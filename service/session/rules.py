"""Which settings of a session exclude one another: one table, and the one function that checks it.

The row that will be stored is checked, whether a new session, a change, a copy or a file makes it.
So no way leads to a session that another way refuses. `docs/rules.md` is made of the table.
"""

from collections.abc import Callable, Container
from typing import Any, NamedTuple

from lhb_engine.agents import ALGORITHMS, Agent, make_options
from service.base.problems import Problem, ProblemCode
from service.session.records import SessionRow

Kind = type[Agent]


class Feature(NamedTuple):
    """What a session may have."""

    name: str  # in messages and in the table
    fields: tuple[str, ...]  # the members of a body that ask for it
    # session and class of its agent -> whether the session has it
    holds: Callable[[SessionRow, Kind], bool]


class Rule(NamedTuple):
    """Two features that exclude each other."""

    feature: Feature
    excluded: Feature
    because: str


def looks_back(session: SessionRow) -> int | None:
    """Return how many of the session's last rounds coming fits use; None: all.

    Those of a session that drops rows then need sums. Elsewhere rounds before the windows of coming
    fits teach nothing any more.
    """
    kind = ALGORITHMS[session.algorithm]
    return kind.looks_back(session.dim, session.horizon, session.options)


def has_only_sums(session: SessionRow) -> bool:
    """Return whether the session has dropped rows of which its fits need the sums.

    With a clock sums of slots stand for decisions, and totals stay: fits can begin anew.
    """
    has_rows = session.dropped_to == 0 or CLOCK.holds(session, ALGORITHMS[session.algorithm])
    return not has_rows and looks_back(session) is None


def model_of(session: SessionRow, revision: int | None = None) -> tuple[Any, ...]:
    """Return what the options at a revision, by default the last one, say of the model."""
    then = session if revision is None else session.at_revision(revision)
    return make_options(session.algorithm, then.options).model


CLOCK = Feature("`clock`", ("clock",), lambda s, _: s.clock is not None)
CLOCK_OF_ALL = Feature(
    '`clock` with `totals` "all"',
    ("clock",),
    lambda s, _: s.clock is not None and s.clock.is_of_all,
)
SUM = Feature('`reward_mode` "sum"', ("reward_mode",), lambda s, _: s.reward_mode == "sum")
DEFAULT = Feature(
    "`default_reward`", ("default_reward",), lambda s, _: s.default_reward is not None
)
NO_HOLDOUT = Feature("an absent `holdout`", ("holdout",), lambda s, _: s.trial.share == 0)
GUARD = Feature("`guard`", ("guard",), lambda s, _: s.trial.guard != "off")
LEARNER = Feature(
    "an algorithm that learns from each reward as it comes",
    ("algorithm",),
    lambda s, kind: kind.learns_within_epoch,
)
OWN = Feature("the option `own`", ("options.own",), lambda s, kind: kind.fits_responses(s.options))
LARGE_DIM = Feature(
    "a larger `dim` than is served",
    ("dim",),
    lambda s, kind: kind.served_dim is not None and s.dim > kind.served_dim,
)
LARGE_HORIZON = Feature(
    "a larger `horizon` than is served",
    ("horizon",),
    lambda s, kind: kind.served_horizon is not None and s.horizon > kind.served_horizon,
)

TOTALS = "totals are whole and told, 0 too, as nobody says when what is summed ends: take one"
STORED = "its state is stored with every reward: `dim` to 128, `horizon` to 10 000, or `anytime`"
HARM = "nothing says whether its agent does harm: set `holdout`, or leave `guard` out"
OF_ALL = 'everybody\'s totals tell no responses apart: take "trajectory", or leave `own` out'

RULES = (
    Rule(SUM, LEARNER, 'a reward is learned once: take "single", or `anytime`'),
    Rule(LARGE_DIM, LEARNER, STORED),
    Rule(LARGE_HORIZON, LEARNER, STORED),
    Rule(GUARD, NO_HOLDOUT, HARM),
    Rule(SUM, CLOCK, TOTALS),
    Rule(DEFAULT, CLOCK, TOTALS),
    Rule(LEARNER, CLOCK, TOTALS),
    Rule(OWN, CLOCK_OF_ALL, OF_ALL),
)


def check_rules(session: SessionRow, asked: Container[str] = ()) -> None:
    """Raise a 422 bad_option if two settings of a session that will be stored exclude each other.

    Members that a request has `asked` for are named first.
    """
    kind = ALGORITHMS[session.algorithm]
    for feature, excluded, because in RULES:
        if feature.holds(session, kind) and excluded.holds(session, kind):
            named = (*feature.fields, *excluded.fields)
            there = [name for name in named if getattr(session, name, None) is not None]
            field = next((name for name in named if name in asked), (there or [*named])[0])
            detail = f"{feature.name} is not possible with {excluded.name}: {because}"
            raise Problem(ProblemCode.BAD_OPTION, detail.replace("`", ""), field)


def check_dropped(session: SessionRow, changed: SessionRow) -> None:
    """Raise a 422 bad_option, naming the field, if fits would need dropped rows."""
    kind = ALGORITHMS[session.algorithm]
    if CLOCK.holds(session, kind):
        return
    waits_longer = changed.reward_wait_seconds > session.reward_wait_seconds
    is_by_time = SUM.holds(session, kind) or DEFAULT.holds(session, kind)
    if has_only_sums(session) and is_by_time and waits_longer:
        detail = "rows of closed rounds are dropped: a longer wait would open some again; leave it"
        raise Problem(ProblemCode.BAD_OPTION, detail, "reward_wait_seconds")
    if session.dropped_to and model_of(changed) != model_of(session):
        detail = f"rounds up to position {session.dropped_to} are dropped: make a new session"
        raise Problem(ProblemCode.BAD_OPTION, detail, "options")
    before, after = looks_back(session), looks_back(changed)
    if not session.dropped_to or before == after:
        return
    what = None
    if after is None:
        what = "fits of all rounds need them"
    elif before is None:
        what = "fits know them by sums, which fits with a memory do not use"
    elif session.n_rounds - after < session.dropped_to:
        what = "a fit with this memory needs some of them"
    if what is not None:
        detail = f"rounds up to position {session.dropped_to} are dropped, and {what}: leave it"
        raise Problem(ProblemCode.BAD_OPTION, detail, "options.memory")
