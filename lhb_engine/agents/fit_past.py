"""The past that a fit of `anytime` has: here, all rows of its window."""

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lhb_engine.agents.fit_part import Part, too_little
from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.scaling import Units, power_of_two
from lhb_engine.history import FitWindow
from lhb_engine.posterior.fit_data import FitData, fit_data, later_rows
from lhb_engine.posterior.outliers import without_outliers
from lhb_engine.posterior.own_responses import less_responses
from lhb_engine.posterior.prediction_check import HeldOut

if TYPE_CHECKING:
    from lhb_engine.agents.anytime import Anytime

FEWEST_ROWS = 40  # that a fit after an alarm may use


class RowsPast:
    """All rows of a fit's window, in units in which the largest numbers are about 1.

    `prediction` is the installed estimate's, in these units; `first` the first round that counts.
    What own responses add to everybody's is taken out of `rows`, and not of `plain`.
    """

    def __init__(
        self, agent: "Anytime", window: FitWindow, rows: AlignedRounds, units: Units | None = None
    ) -> None:
        self.window, self.n_means = window, agent.covariates.n_means
        self.units = units or Units(power_of_two(rows.contexts), power_of_two(rows.y))
        self.prediction = agent.prediction and agent.prediction.in_units(self.units)
        rows = self.units.of(rows)
        if units is None:  # else they stand beside sums of all rows, as these came
            rows = without_outliers(rows, self.prediction)
        self.plain = self.rows = rows
        if self.prediction is not None:
            self.rows = less_responses(self.plain, self.prediction)
        self.first = self.prediction.since_round if self.prediction else 1

    @cached_property
    def later(self) -> HeldOut | None:
        """The rows since the installed estimate's fit; None if there are none.

        With own responses each prediction is judged about its own.
        """
        known = self.prediction
        if known is None:
            return None
        if known.own is None:
            return later_rows(known, self.rows)
        found = known.since(self.rows)
        return found and replace(found, less=lambda new: less_responses(self.plain, new))

    def covered(self) -> dict[str, Any]:
        """Return what the estimate says of its rows."""
        return {
            "n_rows": self.rows.n_rows,
            "n_missing": self.rows.n_missing,
            "first_round": self.window.first,
            "last_round": self.window.last,
        }

    def too_little(self) -> str:
        """Return why the rows cannot be fitted; empty if they can."""
        return too_little(self.rows)

    def part(self, first: int) -> Part:
        """Return the rows from the session's round `first` on."""
        some = first > self.window.first
        rows = self.rows.rows(first, self.window.last) if some else self.rows
        return Part(fit_data(rows), rows, n_means=self.n_means)

    def earlier_parts(self, first: int) -> tuple[int, dict[int, FitData]]:
        """Return the round after which rows are held out, and earlier rows by their first round."""
        assert self.prediction is not None
        cut = self._cut(self.prediction.last_round)
        return cut, self.parts({1, first}, cut, cut // 2)

    def _cut(self, since: int) -> int:
        """Return the middle of the rounds after `since`, up to the newest row if that is older."""
        last, newest = self.window.last, int(self.rows.number.max())
        cut = last - (last - since) // 2
        return cut if cut < newest else newest - max(1, (newest - since) // 2)

    def parts(self, starts: set[int], cut: int, back: int) -> dict[int, FitData]:
        """Return the rows from each start up to `cut`, where they are enough for a fit.

        Others start `back` rounds before its end, half as many, and so on.
        """
        found, fewest = {}, max(FEWEST_ROWS, 8 * self.rows.dim)
        while back >= fewest:
            starts.add(cut - back + 1)
            back //= 2
        for start in sorted(starts):
            inside = (self.rows.number >= start) & (self.rows.number <= cut)
            if inside.any() and not too_little(rows := self.rows.only(inside)):
                found[start] = fit_data(rows)
        return found

    def seen(self) -> FitData:
        """Return the rows that the installed estimate's fit used."""
        assert self.prediction is not None
        return fit_data(self.rows.rows(1, self.prediction.last_round))
