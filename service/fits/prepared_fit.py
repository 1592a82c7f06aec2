"""A fit with all that it reads: its rows, or kept sums and the rows after them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.agents.base import NeedsAllRows, NeedsMore, NeedsProducts
from lhb_engine.design.products import Products
from lhb_engine.design.session_sums import KeptSums, SessionSums
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History
from service.fits.stored_sums import counting, has_sums, sums_made_anew, usable_sums
from service.rounds.offered_arms import stored_sets
from service.rounds.slot_sums import SettledSlots
from service.rounds.timeline import timeline_of
from service.session.fit_schedule import Watermark
from service.session.records import SessionRow
from service.storage.reader import FOR_EVER, Reader

Sums = Literal["kept", "new", "none"]  # what a fit reads of the past besides rows
Answer = tuple[Estimate, SessionSums | None]  # of a fit: the sums are for the next one


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

    def run(self) -> Answer:
        """Fit and check, and return the sums for the next fit if the agent keeps some.

        A window of which no round is left, as those who began them were erased, has no data. Where
        checks find products, the fit is made again with them. Raises `NeedsAllRows` or
        `NeedsNewSums` if the fit has to be without `kept`, `NeedsProducts` if `kept` lacks some.
        """
        if not self.history.trajectories:
            if self.kept is not None:  # of earlier rounds
                raise NeedsAllRows
            return _of_nothing(self.history, self.agent.products), None
        estimate, sums = self.agent.fit_keeping(self.history, self.kept)
        estimate = estimate.with_checks(*self.agent.checks(self.history, estimate))
        agent = self.agent.counting_found(self.history, estimate)
        if agent is self.agent:
            return estimate, sums
        if self.kept is not None:
            raise NeedsProducts(agent.products)
        return replace(self, agent=agent).run()


def _of_nothing(history: History, products: Products) -> Estimate:
    window = history.cut_window
    return Estimate(
        "insufficient_data",
        np.zeros(window.n_lags),
        message="No round of the window is left.",
        products=products,
        first_round=window.first,
        last_round=window.last,
    )


@dataclass(frozen=True, slots=True)
class ReadFit:
    """What a fit has read of its session: the fit, or why it cannot be made.

    `settled` are summed slots that are to be kept; without `fit` and `reason`, before the fit goes
    on. `products` are those that it was to count, `answer` what it gave.
    """

    fit: PreparedFit | None = None
    reason: str | None = None
    settled: SettledSlots | None = None
    products: Products | None = None
    answer: Answer | None = None


def answered(
    read: Callable[[Sums, Products | None], ReadFit],
    run: Callable[[PreparedFit], Answer] = PreparedFit.run,
) -> ReadFit:
    """Read a fit and make it, again with the sums and the products that it then needs."""
    latest = read("kept", None)
    while latest.fit is not None:
        try:
            return replace(latest, answer=run(latest.fit))
        except NeedsMore as more:
            latest = read(more.sums, more.products or latest.products)
    return latest


def read_fit(
    reader: Reader,
    session: SessionRow,
    agent: Agent,
    window: FitWindow,
    mark: Watermark,
    measured: int | None,
    sums: Sums,
    products: Products | None,
    again: int | None = None,
) -> ReadFit:
    """Read what a fit needs: so a session's next fit is made, and so one is made again.

    The session has the options that the fit has, the agent is as it was before the fit. `measured`
    is how many measurements the installed estimate's fit could use. The next fit goes on from what
    earlier fits have kept, or makes it as the last one did. After `NeedsNewSums` it adds up
    new `sums`, after `NeedsAllRows` none. It counts `products` that were found in these rows.
    `again` is `anew` of a fit that is made again.
    """
    takes_kept = again is None
    anew = FOR_EVER if again is None or sums == "none" else again
    agent = agent if products is None else agent.counting(products)
    past = timeline_of(session).past(reader, session, window, mark, takes_kept=takes_kept)
    kept, measured = None, past.seen_before(agent, measured)
    if takes_kept and sums == "kept":
        kept, anew = usable_sums(agent, past, mark)
        agent = agent if kept is None else counting(agent, kept)
    if past.lacks_rows(agent, has_sums=kept is not None):
        dropped = f"rounds up to position {session.dropped_to} are dropped"
        return ReadFit(reason=f"{dropped}, and this fit cannot go on from the sums of them")
    new = [*past.new] if takes_kept else []
    place = mark.measured, session.n_erased_rows, session.drops_rows
    settled = SettledSlots(new, *place) if new else None
    if not past.is_whole:
        return ReadFit(settled=settled)
    past.anew = anew if has_sums(agent, past) else FOR_EVER
    if kept is None and sums != "none":
        kept = sums_made_anew(agent, past, measured)
    history = past.whole() if kept is None else past.recent(kept.n_settled, agent.stretches)
    sets = stored_sets(reader, session, agent, window, mark)
    history = replace(history, measured_before=measured, sets=sets, rereads=past.rereads)
    fit = PreparedFit(agent, kept, history, min(anew, mark.measured))
    return ReadFit(fit, settled=settled, products=products)
