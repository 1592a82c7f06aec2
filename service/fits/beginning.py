"""What a session's next fit begins from: the estimate in use, or nothing."""

from typing import NamedTuple

from lhb_engine.agents import Agent
from service.session.estimate_in_use import EstimateInUse
from service.session.records import SessionRow
from service.session.rules import has_only_sums
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent


class Beginning(NamedTuple):
    """What a fit begins from, besides its rows.

    `measured` is how many measurements the estimate's fit could use; None if it begins from none.
    `n_erased` is that of the session of which the fit's own estimate knows nothing. `is_new`: it
    begins from nothing, though there is an estimate in use.
    """

    measured: int | None
    n_erased: int
    is_new: bool

    def agent(self, reader: Reader, session: SessionRow) -> Agent:
        """Return the session's agent as the fit takes it."""
        return build_agent(session, None if self.is_new else reader.agent_state(session.key))


def estimate_in_use(reader: Reader, session: SessionRow) -> EstimateInUse:
    """Return the session's estimate in use."""
    record = reader.installed(session)
    if record is None:
        return EstimateInUse()
    return EstimateInUse().after(session, record.number, record.inputs, has_direction=True)


def beginning(reader: Reader, session: SessionRow, revision: int) -> Beginning:
    """Return what the session's next fit begins from, which has a revision of its options.

    Where rows are dropped, and the sums are not of the estimate in use, it begins from that: from
    nothing, it could not tell which rows count.
    """
    in_use, n_now = estimate_in_use(reader, session), session.n_erased_rows
    if not in_use.is_left(session, {"n_erased": n_now, "revision": revision}):
        return Beginning(in_use.measured, n_now, is_new=False)
    place = reader.sums_place(session.key) if has_only_sums(session) else None
    if has_only_sums(session) and (place is None or place.estimate != in_use.number):
        return Beginning(in_use.measured, in_use.n_erased, is_new=False)
    return Beginning(None, n_now, is_new=True)
