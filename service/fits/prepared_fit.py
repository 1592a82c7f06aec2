"""A fit with all that it reads: its rows, or kept sums and the rows after them."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.agents.base import NeedsAllRows
from lhb_engine.design.session_sums import KeptSums, SessionSums
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History
from service.fits.kept_sums import has_sums, sums_made_anew, usable_sums
from service.rounds.kept_slots import SettledSlots
from service.rounds.offered_arms import stored_sets
from service.rounds.retention import no_fit_from_rows
from service.rounds.timeline import timeline_of
from service.session.records import SessionRow
from service.session.schedule_records import Watermark
from service.storage.reader import FOR_EVER, Reader

Sums = Literal["kept", "new", "none"]  # what a fit reads of the past besides rows


@dataclass(frozen=True, slots=True)
class PreparedFit:
    """A fit, and all that it reads.

    `history` has all rows of its window, or those that the sums `kept` lack. `anew` is the position
    up to which corrected values are not in it: there the sums were made anew.
    """

    agent: Agent
    kept: KeptSums | None
    history: History
    anew: int

    def run(self) -> tuple[Estimate, SessionSums | None]:
        """Fit and check, and return the sums for the next fit if the agent keeps some.

        A window of which no round is left, as those who began them were erased, has no data. Raises
        `NeedsAllRows` or `NeedsNewSums` if the fit has to be without `kept`.
        """
        if not self.history.trajectories:
            if self.kept is not None:  # of earlier rounds
                raise NeedsAllRows
            return _of_nothing(self.history), None
        estimate, sums = self.agent.fit_keeping(self.history, self.kept)
        return estimate.with_checks(*self.agent.checks(self.history, estimate)), sums


def _of_nothing(history: History) -> Estimate:
    window = history.window
    assert window is not None
    return Estimate(
        "insufficient_data",
        np.zeros(window.n_lags),
        message="No round of the window is left.",
        first_round=window.first,
        last_round=window.last,
    )


@dataclass(frozen=True, slots=True)
class ReadFit:
    """What a fit has read of its session: the fit, or why it cannot be made.

    `settled` are summed slots that are to be kept; without `fit` and `reason`, before the fit goes
    on.
    """

    fit: PreparedFit | None = None
    reason: str | None = None
    settled: SettledSlots | None = None


def read_fit(
    reader: Reader,
    session: SessionRow,
    agent: Agent,
    window: FitWindow,
    known: Watermark,
    measured: int | None,
    *,
    takes_kept: bool,
    sums: Sums = "kept",
    anew: int = FOR_EVER,
) -> ReadFit:
    """Read what a fit needs: so a session's next fit is made, and so one is made again.

    The session has the options that the fit has, the agent is as it was before the fit. `measured`
    is how many measurements the installed estimate's fit could use. With `takes_kept` it goes on
    from what earlier fits have kept: what follows from the log is the same. After `NeedsNewSums` it
    adds up new `sums`, after `NeedsAllRows` none. `anew` is that of a fit that is made again.
    """
    past = timeline_of(session).past(reader, session, window, known, takes_kept=takes_kept)
    kept, measured = None, past.seen_before(agent, measured)
    if takes_kept and sums == "kept":
        kept, anew = usable_sums(reader, session, agent, window, known, past)
    if kept is None:
        reason = no_fit_from_rows(session, agent, window)
        if reason is not None:
            return ReadFit(reason=reason)
    new = [*past.new] if takes_kept else []
    settled = SettledSlots(new, known.measured, session.n_erased_rows) if new else None
    if not past.is_whole:
        return ReadFit(settled=settled)
    past.anew = anew if has_sums(session, agent, past) and not session.dropped_to else FOR_EVER
    if kept is None and sums != "none":
        kept = sums_made_anew(session, agent, window, measured, past)
    history = past.whole() if kept is None else past.recent(kept.n_settled, agent.stretches)
    sets = stored_sets(reader, session, agent, window, known)
    history = replace(history, measured_before=measured, sets=sets)
    fit = PreparedFit(agent, kept, history, min(anew, known.measured))
    return ReadFit(fit, settled=settled)
