"""Options of the anytime agent."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal, cast, get_args

from lhb_engine.agents.fit_windows import FIRST_FIT
from lhb_engine.agents.options import OptionError, Options, check_among, option
from lhb_engine.design.covariates import MOST_HARMONICS, MOST_NAMES, Covariates, Seasonality
from lhb_engine.estimate import LagForm
from lhb_engine.findings.finding import Finding

MOST_STALE = 0.25
PART = 0.02  # of a period: how closely a told season is found
BESIDE = 0.1  # of a period: a season that is found so near a told one is that one's change
MOST_SEASONS = 3  # with which another one is told by itself
MOST_UNKNOWNS = 600  # lags times features; beyond, profiles are shared
MOST_LETTERS = 256  # of a name
FLAGS = {"trend": "trend", "levels_differ": "levels"}  # that findings set
Profiles = Literal["shared", "each", "chosen"]
Features = tuple[int | str, ...]
Groups = tuple[Features, ...]  # features that share a lag profile


@dataclass(frozen=True)
class AnytimeOptions(Options):
    """Options of the anytime agent. All have defaults."""

    epsilon: float = option(
        0.0,
        "Probability of a uniformly random arm in every round. Propensities take it into "
        "account, for off-policy evaluation.",
        limits=(0, 1),
        changeable=True,
    )
    memory: int | None = option(
        None,
        "Number of the session's last rounds that a fit uses, all trajectories together; "
        "null: all rounds, or the last 32 768 where dim times horizon is over 1000. For "
        "environments that change.",
        limits=(FIRST_FIT, inf),
        changeable=True,
    )
    most_stale: float = option(
        MOST_STALE,
        "A fit is due out of turn when more than this share of the rewards came since the "
        "last one, as when a month's rewards come at once; 1: never.",
        limits=(0.1, 1),
        changeable=True,
    )
    signed: bool = option(False, "Allow negative lag weights.")
    seasonality: tuple[Seasonality, ...] = option(
        (),
        "Seasons of the rewards that have nothing to do with the arms. Each has a period in "
        "rounds of a trajectory, and a number of harmonics: 1 is a sine, more make a sharper "
        "shape.",
        changeable="anew",
    )
    trend: bool = option(
        False,
        "Rewards may grow or fall by a constant amount a round of a trajectory, whatever is "
        "chosen.",
        changeable="anew",
    )

    adopts: bool = option(
        True,
        "A season, a trend and levels of trajectories that the checks of a fit find are told to "
        "the later fits: they are added to `seasonality`, `trend` and `levels`, as a change of "
        "options would add them. Products of features that pay count in the scores. false: they "
        "stay findings.",
        changeable=True,
    )

    covariates: tuple[str, ...] = option(
        (),
        f"Names of up to {MOST_NAMES} numbers that move the reward of a round "
        "whatever is chosen, as the weather does. Decisions and rewards carry their values; a "
        "round without one has 0. What all arms of a round have in common is told without them.",
    )

    levels: bool = option(
        False,
        "Trajectories may have levels of their own: rewards of one lie above those of another"
        " in all rounds, whatever is chosen, as where learners differ. Needs dim times "
        "horizon to be at most 1000.",
        changeable="anew",
    )

    own: bool | Features = option(
        False,
        "Trajectories may have responses of their own: what works for one need not work for "
        "another. Decisions of a trajectory are by its own theta, which begins as everybody's. "
        "A list has the features whose effect may differ, names in `features` or numbers from 0; "
        "true: all of them. Fits look at the session's last 32 768 rounds at most.",
        changeable="anew",
    )

    groups: str | None = option(
        None,
        "Own responses of trajectories of a group are alike: those of a country, of a plan. The "
        "group of a trajectory stands in its key before the first of this text, as before the "
        "colon of `de:anna`. A new trajectory begins with what is known of its group. Needs `own`.",
        changeable="anew",
    )

    zero_start: bool = option(
        True,
        "Nothing was chosen before a trajectory's first round. false: the application ran "
        "already, and what it chose then still pays in the first rounds.",
    )

    profiles: Profiles | Groups = option(
        "chosen",
        "The fits find out whether features have lag profiles of their own (chosen), or all "
        "features pay at the same lags (shared), or each has a profile of its own (each), or those "
        "of each of some lists share one, and others have their own; lists are of names in "
        "`features`, or of numbers from 0. The last two need dim times horizon to be at most 600.",
        changeable=True,
    )

    @property
    def form(self) -> LagForm | None:
        """The form of lag profiles that was told; None where the data choose."""
        if self.profiles in ("shared", "chosen"):
            return "shared" if self.profiles == "shared" else None
        return "smooth"

    @property
    def profile_groups(self) -> tuple[tuple[int, ...], ...]:
        """The features that share a lag profile, where such were told to an agent."""
        return () if isinstance(self.profiles, str) else cast(Any, self.profiles)

    @property
    def adopts_products(self) -> bool:
        """Whether products that fits find may count: own responses and groups are of features."""
        return self.adopts and not self.own and not self.profile_groups

    @property
    def own_features(self) -> tuple[int, ...]:
        """The features whose effect may differ, where such were told to an agent; empty: all."""
        return () if isinstance(self.own, bool) else cast(Any, self.own)

    @property
    def told(self) -> Covariates:
        """What fits are told of each round."""
        return Covariates(self.seasonality, self.trend, self.covariates)

    def says(self, finding: Finding) -> bool:
        """Whether these tell fits what a finding advises to tell."""
        if finding.code == "season":
            return any(_is_part(season, finding.period or 0.0) for season in self.seasonality)
        told = {"trend": self.trend, "lags_change": self.memory}
        told |= {"levels_differ": self.levels, "responses_differ": bool(self.own)}
        return bool(told.get(finding.code))

    def advised(self, findings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the options that change if what these findings have found is added.

        A found season replaces the told seasons that are parts of it. A season whose period is
        within a tenth of a told one is not added: it is that season, which changes.
        """
        out: dict[str, Any] = {}
        for one in findings if self.adopts else ():
            flag = FLAGS.get(one["code"])
            if flag and not getattr(self, flag):
                out[flag] = True
            if one["code"] == "season":
                season = Seasonality(one["period"], one["harmonics"])
                seasons = [told for told in self.seasonality if not _is_part(season, told.period)]
                beside = (abs(told.period / season.period - 1.0) < BESIDE for told in seasons)
                if len(seasons) < MOST_SEASONS and not any(beside):
                    out["seasonality"] = [asdict(each) for each in (*seasons, season)]
        return out

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.own, list | tuple):
            object.__setattr__(self, "own", _features("own", self.own, 1))
        elif not isinstance(self.own, bool):
            raise OptionError("own", "must be true, false, or a list of features")
        if self.groups is not None:
            _check_text("groups", self.groups)
        object.__setattr__(self, "profiles", _profiles(self.profiles))
        object.__setattr__(self, "seasonality", _seasons(self.seasonality))
        object.__setattr__(self, "covariates", _names(self.covariates))


def _is_part(season: Seasonality, period: float) -> bool:
    """Whether a found period is about a told one, or that of one of its told harmonics."""
    times = season.period / period
    return 1 <= round(times) <= season.harmonics and abs(times - round(times)) < PART * times


def _profiles(value: Any) -> Profiles | Groups:
    """Return what was told of lag profiles; groups from JSON lists.

    Raises `OptionError`: it is neither a known word nor a list of different features.
    """
    if not isinstance(value, list | tuple):
        check_among("profiles", value, get_args(Profiles))
        return cast(Profiles, value)
    lists = [_features("profiles", group, 2) for group in value or [()]]
    _features("profiles", [feature for group in lists for feature in group], 2)
    return tuple(lists)


def _features(name: str, value: Any, fewest: int) -> Features:
    """Return the features that an option lists, by name or number.

    Raises `OptionError`: the list has fewer than `fewest` features, or one of them twice.
    """
    is_list = isinstance(value, list | tuple) and len(value) >= fewest
    if not is_list or {*map(type, value)} - {int, str}:
        many = "two features" if fewest > 1 else "one feature"
        raise OptionError(name, f"a list has {many} or more: names, or numbers from 0")
    if len(set(value)) < len(value):
        raise OptionError(name, "a feature stands twice")
    return tuple(value)


def _check_text(option: str, value: object) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= MOST_LETTERS or "\0" in value:
        detail = f"must be a text of 1 to {MOST_LETTERS} letters, without zero bytes"
        raise OptionError(option, detail)


def _names(names: Any) -> tuple[str, ...]:
    """Return names of covariates from a JSON list.

    Raises `OptionError`: it is no list of different names, or a long one.
    """
    if not isinstance(names, list | tuple) or len(names) > MOST_NAMES:
        raise OptionError("covariates", f"must be a list of at most {MOST_NAMES} names")
    for name in names:
        _check_text("covariates", name)
    if len(set(names)) < len(names):
        raise OptionError("covariates", "a name stands twice")
    return tuple(names)


def _seasons(value: Any) -> tuple[Seasonality, ...]:
    """Return seasons from JSON objects.

    Raises `OptionError`: one is not a season, or there are too many columns of them.
    """
    if not isinstance(value, list | tuple):
        raise OptionError("seasonality", "must be a list of objects with a period")
    try:
        seasons = tuple(s if isinstance(s, Seasonality) else Seasonality(**s) for s in value)
    except ValueError as error:
        raise OptionError("seasonality", str(error)) from None
    except TypeError:
        detail = "a season is an object with a period and, optionally, harmonics"
        raise OptionError("seasonality", detail) from None
    if sum(season.harmonics for season in seasons) > MOST_HARMONICS:
        raise OptionError("seasonality", f"has at most {MOST_HARMONICS} harmonics in all")
    return seasons
