"""What `anytime` leaves nobody to tune: its constants, together so that each can be measured."""

from dataclasses import dataclass, fields, replace
from typing import Self


@dataclass(frozen=True)
class AnytimeSettings:
    """The agent's constants are the defaults; others are for ablations (`lhb bench decide`).

    Attributes
    ----------
    least_step : rounds between two fits, at least
    early_growth, late_growth : from one fit's round to the next one's
    early : horizons up to which fits are early ones: there a fit is worth most
    renewed : rounds over those that the installed direction's fit had seen, below which a late fit
        only checks that direction; it is found anew then, or sooner where the check fails
    learned : concentration of theta's draws below which nothing is installed
    sure_sign : agreement of the draws' sides; asked once rows are twice the lags: a faint early
        direction explores as well as anything else would, and better the more often it changes
    lapse : how long an unconfirmed direction counts, in rounds that its fit looked back on
    guard : standard errors by which a new estimate's squared errors on the rounds since the last
        one may not exceed the last one's
    most_chains, least_chains : of a fit
    places : rows times chains; while it is small, further chains cost next to nothing
    first_sweeps, sweeps, kept : before chains are thinned where no start is known, and where one
        is; and after, when draws are kept
    temper : an evidence is itself a draw: differences of a few nats do not decide
    """

    least_step: int = 3
    early_growth: float = 1.15
    late_growth: float = 1.12
    renewed: float = 1.4
    early: float = 2.5
    learned: float = 0.3
    sure_sign: float = 0.9
    lapse: float = 1.0
    guard: float = 2.0
    most_chains: int = 32
    least_chains: int = 8
    places: int = 2000
    first_sweeps: int = 6
    sweeps: int = 8
    kept: int = 8
    temper: float = 4.0

    def changed(self, text: str) -> Self:
        """With changes written as "lapse=inf,sweeps=10".

        Raises
        ------
        ValueError
            For a name that is none of the settings, or a value that is no such number.
        """
        kinds = {field.name: type(getattr(self, field.name)) for field in fields(self)}
        values = {}
        for change in text.split(","):
            name, _, value = change.partition("=")
            if name not in kinds:
                raise ValueError(f"{name!r} is no setting: {', '.join(kinds)}")
            values[name] = kinds[name](value)
        return replace(self, **values)
