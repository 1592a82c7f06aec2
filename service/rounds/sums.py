"""The moments of a session's past, as a fit's process returns them and as they are stored."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from service.session.records import KeptSumsRow, SessionRow, SlotSumsRow


@dataclass(frozen=True, slots=True)
class FitSums:
    """What a fit's process returns of its sums: moments as bytes, None where rows may change."""

    estimate: int  # number of the estimate that the fit began from; 0: none
    first_round: int  # as in `KeptSums`, like `last_round`, `n_settled` and `settled`
    last_round: int
    n_settled: int
    settled: bytes
    total: bytes | None  # of all rows
    seen: bytes | None  # of the rows that the installed estimate's fit used
    measured: int  # position of the last measurement that the fit could use
    anew: int  # position of the last correction whose old value was never in them

    def row(self, session: SessionRow, installed: dict[str, Any] | None) -> KeptSumsRow | None:
        """Return the row to be kept after the fit, or None if the next one has no use for it.

        `installed` are the diagnostics of the fit's estimate if it was installed.
        """
        if installed is None:
            is_useful, seen = session.estimate == self.estimate, self.seen
        else:
            is_useful, seen = installed.get("since_round", 1) == self.first_round, self.total
        if not is_useful:
            return None
        place = self.first_round, self.last_round, self.n_settled
        return KeptSumsRow(
            *session.key, session.estimate, *place, self.settled, seen, self.measured, self.anew
        )


def n_erased(session: SessionRow) -> int:
    """Return a number that grows whenever a trajectory of a session is erased."""
    return session.n_erased_rounds + session.n_erased_measurements


class SettledSlots(NamedTuple):
    """What a fit's process returns of slots of time that it has summed, in a session with a clock.

    `rows` are stretches of slots that take no decision any more. `measured` is the position of the
    last measurement, or void, that the fit could know; `n_erased` as when it read the decisions.
    """

    rows: list[SlotSumsRow]
    measured: int
    n_erased: int


class FitAnswer(NamedTuple):
    """What a fit's process returns.

    `text` is JSON of a `Fitted` without its sums; without estimate and reason, `settled` comes
    first. Sums come as bytes: as JSON they would be 12 MB where a fit has 500 unknowns, and be
    parsed in the event loop.
    """

    text: str
    sums: FitSums | None = None
    settled: SettledSlots | None = None
