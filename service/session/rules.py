"""What excludes what in a session: its tables, and the one function that checks them.

The row that will be stored is checked, whether a new session, a change, a copy, a file or the
findings of a fit make it. So no way leads to a session that another way refuses. `RULES` are of
pairs of settings; `CHANGES` and `COPIES` of what a session with a past cannot become.
`docs/rules.md` is made of them.
"""

from collections.abc import Callable, Container
from typing import Any, NamedTuple

from lhb_engine.agents import make_options
from service.base.problems import Problem, ProblemCode
from service.session.covariates import names_of_covariates
from service.session.records import SessionRow


class Feature(NamedTuple):
    """What a session may have."""

    name: str  # in messages and in the table
    fields: tuple[str, ...]  # the members of a body that ask for it
    holds: Callable[[SessionRow], bool]  # whether a session has it


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
    return session.kind.looks_back(session.dim, session.horizon, session.options)


def has_only_sums(session: SessionRow) -> bool:
    """Return whether the session has dropped rows of which its fits need the sums.

    With a clock sums of slots stand for decisions, and totals stay: fits can begin anew.
    """
    return _gave_up(session) and looks_back(session) is None


def model_of(session: SessionRow, revision: int | None = None) -> tuple[Any, ...]:
    """Return what the options at a revision, by default the last one, say of the model."""
    then = session if revision is None else session.at_revision(revision)
    return make_options(session.algorithm, then.options).model


CLOCK = Feature("`clock`", ("clock",), lambda s: s.clock is not None)
CLOCK_OF_ALL = Feature(
    '`clock` with `totals` "all"', ("clock",), lambda s: s.clock is not None and s.clock.is_of_all
)
SUM = Feature('`reward_mode` "sum"', ("reward_mode",), lambda s: s.reward_mode == "sum")
DEFAULT = Feature("`default_reward`", ("default_reward",), lambda s: s.default_reward is not None)
NO_HOLDOUT = Feature("an absent `holdout`", ("holdout",), lambda s: s.trial.share == 0)
GUARD = Feature("`guard`", ("guard",), lambda s: s.trial.guard != "off")
LEARNER = Feature(
    "an algorithm that learns from each reward as it comes",
    ("algorithm",),
    lambda s: s.kind.learns_within_epoch,
)
OWN = Feature("the option `own`", ("options.own",), lambda s: s.kind.fits_responses(s.options))
LARGE_DIM = Feature(
    "a larger `dim` than is served",
    ("dim",),
    lambda s: s.kind.served_dim is not None and s.dim > s.kind.served_dim,
)
LARGE_HORIZON = Feature(
    "a larger `horizon` than is served",
    ("horizon",),
    lambda s: s.kind.served_horizon is not None and s.horizon > s.kind.served_horizon,
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


class Step(NamedTuple):
    """A change, or a copy, that is excluded by what a session has been through."""

    past: str  # what it has, in the table
    excluded: str  # what it cannot become, in the table
    because: str  # where {before} is the session, {after} what it or its copy would be
    field: str | None
    # `before` and `after` -> what is excluded, {what} above; nothing: it may become that
    what: Callable[[SessionRow, SessionRow], Any]
    code: ProblemCode = ProblemCode.BAD_OPTION


def _gave_up(session: SessionRow) -> bool:
    """Return whether rounds are dropped that a fit may need: with a clock sums stand for them."""
    return session.dropped_to > 0 and not CLOCK.holds(session)


def _unmeasured(before: SessionRow, after: SessionRow) -> str | None:
    """Return a covariate of which the session's rounds have no values."""
    known = names_of_covariates(before if before.n_rounds else after)
    return next((name for name in names_of_covariates(after) if name not in known), None)


def _opens_again(before: SessionRow, after: SessionRow) -> bool:
    """Return whether a longer wait opens rounds that fits know by sums alone."""
    is_by_time = any(one.holds(before) for one in (SUM, DEFAULT))
    is_longer = after.reward_wait_seconds > before.reward_wait_seconds
    return is_by_time and is_longer and has_only_sums(before)


def _looks_elsewhere(before: SessionRow, after: SessionRow) -> str | None:
    """Return why fits that look back otherwise would need dropped rounds."""
    known, back = looks_back(before), looks_back(after)
    if not _gave_up(before) or known == back:
        return None
    if back is None:
        return "fits of all rounds need them"
    if known is None:
        return "fits know them by sums, which fits with a memory do not use"
    needs = before.n_rounds - back < before.dropped_to
    return "a fit with this memory needs some of them" if needs else None


def _is_other_model(before: SessionRow, after: SessionRow) -> bool:
    return _gave_up(before) and model_of(after) != model_of(before)


def _loses_rounds(before: SessionRow, after: SessionRow) -> bool:
    """Return whether a copy would read dropped rounds: with a clock only to work out columns."""
    columns = [(one.names, one.kind.n_given(one.dim, one.horizon)) for one in (before, after)]
    return _gave_up(before) or (before.dropped_to > 0 and columns[0] != columns[1])


DROPPED, GIVEN_UP = "dropped rounds", "rounds up to position {before.dropped_to} are dropped"
BY_SUMS = "dropped rounds, known by sums, that time closed"
BY_ROWS = "dropped rounds, without a clock or with other columns"
OPEN_AGAIN = "rows of closed rounds are dropped: a longer wait would open some again; leave it"
NEEDED, ANEW = f"{GIVEN_UP}, and {{what}}: leave it", f"{GIVEN_UP}: make a new session"
LOST = (
    f"{GIVEN_UP}: a copy would learn nothing of them. With the same settings, `lhb export` and "
    "`lhb import` go on with what was learned; for other settings, begin a new session"
)
NO_VALUES = (
    "the session's {before.n_rounds} rounds have no values of the covariate {what!r}, which would "
    "count 0: create a new session with it, and send its rounds as history, with their values"
)
NO_PAST = "{after.algorithm} learns from each reward as it comes, not from a past"

UNMEASURED = Step("rounds", "new covariate", NO_VALUES, "options.covariates", _unmeasured)
CHANGES = (
    UNMEASURED,
    Step(BY_SUMS, "longer `reward_wait_seconds`", OPEN_AGAIN, "reward_wait_seconds", _opens_again),
    Step(DROPPED, "option of another model", ANEW, "options", _is_other_model),
    Step(DROPPED, "`memory` that needs them", NEEDED, "options.memory", _looks_elsewhere),
)
COPIES = (
    Step(BY_ROWS, "copy", LOST, None, _loses_rounds, ProblemCode.ROUND_DROPPED),
    Step(
        "a past",
        f"copy with {LEARNER.name}",
        NO_PAST,
        "algorithm",
        lambda _, after: LEARNER.holds(after),
    ),
    UNMEASURED,
)


def check_rules(
    session: SessionRow,
    fields: Container[str] = (),
    before: SessionRow | None = None,
    steps: tuple[Step, ...] = CHANGES,
) -> None:
    """Check a session that will be stored.

    `before` is what it is now, or with `steps` of `COPIES` what it is a copy of. Raises a 422
    bad_option if two of its settings exclude each other, and the problem of a step that is
    excluded. Members that a request has `fields` for are named first.
    """
    for feature, excluded, because in RULES:
        if feature.holds(session) and excluded.holds(session):
            named = (*feature.fields, *excluded.fields)
            there = [name for name in named if getattr(session, name, None) is not None]
            field = next((name for name in named if name in fields), (there or [*named])[0])
            detail = f"{feature.name} is not possible with {excluded.name}: {because}"
            raise Problem(ProblemCode.BAD_OPTION, detail.replace("`", ""), field)
    if before is None:
        return
    for step in steps:
        if what := step.what(before, session):
            detail = step.because.format(before=before, after=session, what=what)
            raise Problem(step.code, detail, step.field)
