"""A fit with all that it reads: its rows, or kept sums and the rows after them.

It says when a fit may go on from the sums that a session's fits keep, and when these are made anew.
The sums follow from the rows: a fit without them reads all rows. A session that drops rows needs
them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.agents.base import NeedsAllRows, NeedsMore, NeedsProducts
from lhb_engine.agents.fit_past import kept_sums, sums_from_bytes
from lhb_engine.design.aligned_rounds import NEVER, align
from lhb_engine.design.products import Products
from lhb_engine.design.session_sums import KeptSums, Seen, SessionSums, lessened
from lhb_engine.estimate import Estimate
from lhb_engine.history import LATEST, FitWindow, History
from service.fits.beginning import estimate_in_use
from service.fits.fit_answer import FitSums
from service.fits.record import last_estimated
from service.rounds.offered_arms import stored_sets
from service.rounds.slot_sums import SettledSlots
from service.rounds.timeline import Past, timeline_of
from service.session.records import KeptSumsRow, SessionRow, Watermark
from service.session.rules import has_only_sums
from service.storage.reader import FOR_EVER, Reader
from service.writer.agent_cache import build_agent

AT_ONCE = 4  # times the latest rounds: a fit without sums of more adds up its rows in slices
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
        agent = agent if kept is None else _counting(agent, kept)
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


def usable_sums(agent: Agent, past: Past, mark: Watermark) -> tuple[KeptSums | None, int]:
    """Return the sums from which this fit may go on, and where these were made anew.

    Or None: it reads all rows, and adds them as the last fit did, so that no bit tells whether sums
    were there. Where rows were dropped, sums may lack products that the agent counts.

    A row that a fit used must never change, but for corrections: these take it out of the sums. So
    there are none where a decision was voided since, or a value came for a settled closed round.
    """
    if not has_sums(agent, past):
        return None, FOR_EVER
    reader, session, before = past.reader, past.session, agent.prediction
    row = reader.kept_sums(session.key)
    # else it is a fit that others have overtaken
    is_latest = row and row.last_round <= past.window.last and row.measured <= mark.measured
    if row and is_latest and row.estimate == session.estimate and not past.has_changed(row):
        is_whole = row.seen is not None or not past.seen_stays
        if before is None or (row.first_round == before.since_round and is_whole):
            kept = _kept(row, agent)
            if kept.settled.dim == agent.fitted_dim or has_only_sums(session):
                return kept, row.anew
    last = last_estimated(reader, session, session.n_estimates)
    return None, FOR_EVER if last is None else last.inputs.get("anew", FOR_EVER)


def has_sums(agent: Agent, past: Past) -> bool:
    """Whether this fit works from sums, of rows that do not change once they are settled."""
    return agent.keeps_sums and past.n_rows > LATEST


def sums_made_anew(agent: Agent, past: Past, measured: int | None) -> KeptSums | None:
    """Add up the rows of a fit that finds no sums to go on from, in bounded memory.

    None where it has so few rounds that all are read at once, where it needs rows and not sums, or
    where rows were dropped.
    """
    if not has_sums(agent, past) or past.n_rows <= AT_ONCE * LATEST or has_only_sums(past.session):
        return None
    slices = past.slices(agent.stretches)
    return kept_sums(agent, slices, past.window, measured, past.settled_round)


def sums_without(reader: Reader, session: SessionRow, trajectory: str) -> KeptSumsRow | None:
    """Return the kept sums less what is left of a trajectory, or None where there are none.

    Rows that are dropped, or whose lags are, cannot be added up again: they stay in the sums.
    """
    agent = build_agent(session, reader.agent_state(session.key))
    row = reader.kept_sums(session.key)
    if row is None:
        return row
    window = FitWindow(1, 1, row.last_round, session.horizon, row.last_round)
    mark = Watermark(row.measured, session.n_rounds)
    past = timeline_of(session).past(reader, session, window, mark, takes_kept=True)
    history = past.of(trajectory)
    if not history.trajectories:
        return row
    before = agent.prediction
    seen = None
    if before is not None:
        measured = past.seen_before(agent, estimate_in_use(reader, session).measured)
        seen = Seen(NEVER if measured is None else measured, before.last_round)
    kept = _kept(row, agent)
    rows = align(_counting(agent, kept).told(history))
    sums = lessened(kept, rows, seen)
    rest = None if sums.seen is None else sums.seen.to_bytes()
    return row._replace(settled=sums.settled.to_bytes(), seen=rest)


def _counting(agent: Agent, kept: KeptSums) -> Agent:
    """Return the agent that counts the products which sums have."""
    n_fewer = agent.fitted_dim - kept.settled.dim
    return agent.counting(agent.products[: len(agent.products) - n_fewer])


def _kept(row: KeptSumsRow, agent: Agent) -> KeptSums:
    """Return stored sums as a fit takes them; one that begins anew has seen nothing before."""
    before = None if agent.prediction is None else row.seen
    seen = None if before is None else sums_from_bytes(agent, before)
    settled = sums_from_bytes(agent, row.settled)
    return KeptSums(row.first_round, row.last_round, row.n_settled, settled, seen)


def sums_to_keep(sums: SessionSums, session: SessionRow, anew: int, *, is_new: bool) -> FitSums:
    """Return what a fit's process returns of its sums.

    The session is as it was before the fit. `is_new` says whether that began from nothing; `anew`
    is that of `PreparedFit`.
    """
    kept = sums.kept
    seen = None if kept.seen is None else kept.seen.to_bytes()
    place = 0 if is_new else session.estimate, kept.first, kept.last, kept.n_settled
    assert session.schedule.current is not None
    measured = session.schedule.current.known.measured
    row = KeptSumsRow("", "", *place, kept.settled.to_bytes(), seen, measured, anew)
    return FitSums(row, sums.total.to_bytes() if sums.total_stays else None)
