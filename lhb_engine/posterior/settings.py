"""The constants of the anytime agent (docs/model.md 7). They are not options of the service."""

from dataclasses import dataclass, fields, replace
from typing import Self


@dataclass(frozen=True)
class AnytimeSettings:
    """Constants of schedule, sampler and checks. Only ablations change them (`lhb bench decide`).

    Attributes
    ----------
    least_step : int
        Fewest rounds between two fits (7.1).
    early_growth, late_growth : float
        Ratio of a fit's round to the previous fit's (7.1).
    early : float
        Fits before this many horizons are early ones (7.1).
    renewed : float
        A late fit only checks the installed direction until the rounds are this many times those
        that the direction's fit had seen.
    guard : float
        Standard errors in (7.11).
    most_chains, least_chains : int
        Bounds of the number of chains.
    places : int
        Rows times chains, within these bounds: with few rows, more chains cost little.
    first_sweeps, sweeps : int
        Sweeps before the chains are resampled, without and with a known start.
    kept : int
        Sweeps after it, whose draws are averaged.
    temper : float
        Divisor of the log evidence in (7.8).
    """

    least_step: int = 3
    early_growth: float = 1.15
    late_growth: float = 1.12
    renewed: float = 1.4
    early: float = 2.5
    guard: float = 2.0
    most_chains: int = 32
    least_chains: int = 8
    places: int = 2000
    first_sweeps: int = 6
    sweeps: int = 8
    kept: int = 8
    temper: float = 4.0

    def changed(self, text: str) -> Self:
        """Return the settings with changes such as "guard=inf,sweeps=10"; ValueError for others."""
        kinds = {field.name: type(getattr(self, field.name)) for field in fields(self)}
        values = {}
        for change in text.split(","):
            name, _, value = change.partition("=")
            if name not in kinds:
                raise ValueError(f"{name!r} is no setting: {', '.join(kinds)}")
            values[name] = kinds[name](value)
        return replace(self, **values)
