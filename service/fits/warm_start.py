"""What a session's next fit begins from: the estimate in use, or nothing.

A fit begins anew where rows were erased that the estimate in use may have learned from, and where
options mean another model. Then its result depends on the rows that are left, and on the products
that count where none was erased, and it replaces that estimate even if it finds no direction. The
manifests say it: each has the number of rows that had been erased, and the revision of the options.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lhb_engine.agents import Agent
from service.session.records import SessionRow
from service.session.rules import has_only_sums, model_of
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent


@dataclass(frozen=True, slots=True)
class EstimateInUse:
    """The estimate that a session decides by, if there is one."""

    number: int = 0  # of the fit that gave it; 0: there is none
    measured: int | None = None  # how many measurements its fit could use; None without one
    n_erased: int = 0  # `n_erased` of the session of which it knows nothing
    model: tuple[Any, ...] = ()  # `model_of` its fit

    def is_left(self, session: SessionRow, manifest: Mapping[str, Any]) -> bool:
        """Return whether a fit with this manifest begins anew."""
        state = manifest.get("n_erased", 0), model_of(session, manifest.get("revision", 0))
        return self.number > 0 and state != (self.n_erased, self.model)

    def anew(self, session: SessionRow, agent: Agent, n_erased: int) -> Agent:
        """Return the agent that has learned nothing, but which products count, for such a fit.

        Erased rows may have shown them: they are found anew, where sums do not have them.
        """
        fresh, is_left = build_agent(session, None), n_erased == self.n_erased
        return fresh.counting(agent.products) if is_left or has_only_sums(session) else fresh

    def after(
        self, session: SessionRow, number: int, manifest: Mapping[str, Any], *, has_direction: bool
    ) -> "EstimateInUse":
        """Return the estimate in use after a fit with this number that has given an answer."""
        if has_direction:
            state = manifest.get("n_erased", 0), model_of(session, manifest.get("revision", 0))
            return EstimateInUse(number, manifest["measured"], *state)
        return EstimateInUse() if self.is_left(session, manifest) else self


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
        agent = build_agent(session, reader.agent_state(session.key))
        if not self.is_new:
            return agent
        return estimate_in_use(reader, session).anew(session, agent, self.n_erased)


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
