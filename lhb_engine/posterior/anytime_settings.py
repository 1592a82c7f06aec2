"""The constants of the anytime agent (docs/model.md 7). They are not options of the service."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class AnytimeSettings:
    """Constants of schedule, sampler and checks; only `lhb bench decide` changes them."""

    least_step: int = 3  # fewest rounds between two fits (7.1)
    # ratio of a fit's round to the previous fit's (7.1)
    early_growth: float = 1.15
    middle_growth: float = 1.12
    late_growth: float = 1.04
    early: float = 2.5  # fits before this many horizons are early ones (7.1)
    often: int = 120  # fits after them and from this round on are late ones (7.1)
    # a late fit after so many horizons, or rounds, only checks the installed direction until the
    # rounds are so many times those that the direction's fit had seen
    known: float = 20.0
    known_rounds: int = 560
    renewed: float = 1.4
    acceptance: float = 2.0  # standard errors in (7.11)
    # most_chains, least_chains: bounds of the number of chains
    most_chains: int = 32
    least_chains: int = 8
    smooth_chains: int = 8  # with smooth lag weights, beside those with spikes and slabs
    # rows times chains, within these bounds: with few rows, more chains cost little
    places: int = 2000
    # first_sweeps, sweeps: sweeps before the chains are resampled, without and with a known start
    first_sweeps: int = 6
    sweeps: int = 8
    kept: int = 8  # sweeps after it, whose draws are averaged
    temper: float = 4.0  # divisor of the log evidence in (7.8)

    def growth(self, due: int, horizon: int) -> tuple[float, float]:
        """Return g of (7.1) after a fit due at a round, and the round up to which g holds."""
        if due < self.early * horizon:
            return self.early_growth, self.early * horizon
        return (self.middle_growth, self.often) if due < self.often else (self.late_growth, inf)
