"""The timeline on which each decision is a round; `by_slot` is the other one."""

from collections.abc import Iterable, Mapping

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.history import FitWindow, Floats, Ints
from lhb_engine.randomness import Draw
from service.rounds.closing import closing_of
from service.rounds.history import PastByDecision, PastByTime
from service.rounds.reward import Reward
from service.rounds.reward_rounds import decided_rounds
from service.session.covariates import covariates_text
from service.session.records import (
    DecisionRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.session.schedule_records import Watermark
from service.storage.ports import Changes
from service.storage.reader import Reader
from service.writer.unit_of_work import UnitOfWork


class ByDecision:
    """Rounds are decisions: a session counts them by position, a trajectory by number."""

    seconds = None  # of a slot
    called = "round"  # in texts
    is_of_all = False  # a reward is of its trajectory

    def time_of(self, asked: float | None, now: float, n_begun: int, last_at: float = 0.0) -> float:
        """Return when a decision is taken: now, but times never go back within a trajectory.

        `asked` is what the client says, or its log, in Unix seconds; `last_at` that of the
        trajectory's last decision. Raises 422 where the session takes no decision of that time.
        """
        return max(now if asked is None else asked, last_at)

    def n_begun(self, session: SessionRow) -> int:
        """Return how many rounds have begun, as lags and fits count them."""
        return session.n_rounds

    def n_slots(self, session: SessionRow) -> int | None:
        """Return how many slots have begun; None without a clock."""
        return None

    def begun_by(self, position: int, at: float) -> int:
        """Return the number of the round that a decision begins: its position in the session."""
        return position

    def begun_with(self, session: SessionRow, last: int) -> int:
        """Return how many rounds have begun once a value of rounds up to `last` is in."""
        return session.n_rounds

    def begun_next(self, session: SessionRow) -> float:
        """Return how many rounds may have begun after one more decision or reward, at most."""
        return session.n_rounds + 1

    def begin(self, uow: UnitOfWork, session: SessionRow, n: int) -> bool:
        """Take note that `n` rounds have begun; return whether some of them had not before."""
        return True  # it is a decision's round, and counted with it

    def begins(self, round: int) -> float | None:
        """Return when a round begins, in Unix seconds; None where a decision begins it."""
        return None

    def passed(self, due: int, n_begun: int) -> int:
        """Return after which round the fit that follows the one due after `due` is looked for."""
        return due

    def opened_after(self, installed: int, ended: set[int], changed: int) -> int:
        """Return after which round the due rounds of open windows are.

        `installed` and `ended` are due rounds of the fit in use and of all fits that have ended;
        options changed last after `changed` decisions.
        """
        return max(installed, changed)

    def epoch(self, session: SessionRow, agent: Agent, begun: int) -> tuple[int, int | None]:
        """Return a round's epoch, and after which round its fit is due; None in the last epoch."""
        windows = session.schedule.open
        if not windows:
            return 1, None
        window = windows[-1].window
        return (window.epoch, window.due) if window.due >= begun else (window.epoch + 1, None)

    def draw(
        self, session: SessionRow, trajectory: str, round: int, position: int, at: float
    ) -> Draw:
        """Return the randomness of a decision."""
        return Draw(session.seed, trajectory, round, position)

    def covariates_of_decision(
        self, session: SessionRow, given: Mapping[str, float] | None
    ) -> str | None:
        """Return what a decision's row stores of given covariates; None if there are none.

        Raises 422: the session has no such covariate, or its decisions have none.
        """
        return covariates_text(session, given)

    def has_values_alone(self, trajectory: str) -> bool:
        """Return whether a trajectory may have values without any decision."""
        return False

    def refuse_log(self) -> None:
        """Raise a 422 if a log of rounds cannot be appended."""

    def rounds_of(
        self,
        uow: UnitOfWork,
        session: SessionRow,
        trajectory: TrajectoryRow,
        reward: Reward,
        prefix: str,
    ) -> tuple[int, int]:
        """Check which rounds a reward names, and return the first and the last of them.

        Raises 409 or 422 if there are no such rounds, or if the session takes no such reward. The
        name of the field begins with `prefix`.
        """
        return decided_rounds(uow, session, trajectory, reward, prefix)

    def is_late(self, trajectory: TrajectoryRow, last: int) -> bool:
        """Return whether a value of rounds up to `last` comes after its trajectory's next round."""
        return last < trajectory.n_rounds

    def last_round(self, trajectory: TrajectoryRow) -> int:
        """Return a trajectory's last round."""
        return trajectory.n_rounds

    def is_measured(self, trajectory: TrajectoryRow, begun: int) -> bool:
        """Return False: a decision begins its round."""
        return False

    def n_missing(self, n_rounds: int, n_measured: int) -> int | None:
        """Return how many of a trajectory's rounds lack a value; None where they never have one."""
        return n_rounds - n_measured

    def refuse_erasing(self, trajectory: str) -> None:
        """Raise a 422 if a trajectory cannot be erased."""

    def without(self, reader: Reader, session: SessionRow, trajectory: str) -> Changes:
        """Return what erasing a trajectory changes of the session's summed rounds."""
        return Changes()

    def without_decision(
        self, reader: Reader, session: SessionRow, decision: DecisionRow
    ) -> Changes:
        """Return what voiding a decision changes of the session's summed rounds.

        Raises 409 round_dropped where these can never be summed anew.
        """
        return Changes()

    def past(
        self,
        reader: Reader,
        session: SessionRow,
        window: FitWindow,
        known: Watermark | None,
        *,
        takes_kept: bool,
    ) -> PastByDecision:
        """Return what a fit reads, given what it may know; `takes_kept`: sums of rounds, too."""
        if known is not None and closing_of(session).is_by_time:
            return PastByTime(reader, session, window, known)
        return PastByDecision(reader, session, window, known)

    def positions_of(self, window: FitWindow, known: Watermark) -> tuple[int, int]:
        """Return the first and the last position whose decision a fit may know."""
        return window.first, window.last

    def n_gone(self, gaps: Ints, window: FitWindow) -> int:
        """Return how many positions of missing decisions may be in a window."""
        return int(np.ptp(np.searchsorted(gaps, (window.first, window.last + 1))))

    def n_earlier(self, session: SessionRow, n_lags: int, n_rounds: int) -> int:
        """Return how many earlier decisions the last `n_rounds` rounds have as lags, at most."""
        n_before = min(n_lags - 1, session.n_rounds - n_rounds)
        return min(n_before * min(session.n_trajectories, n_rounds), session.n_rounds - n_rounds)

    def taken(
        self, reader: Reader, session: SessionKey, first: int, last: int
    ) -> list[tuple[int, float, bool | None]]:
        """Return number and time of each round, and whether it explored."""
        return reader.taken(session, first, last)

    def arrivals(
        self, reader: Reader, session: SessionKey, first: int, last: int
    ) -> list[tuple[float, bool]]:
        """Return how many seconds after its round each value came, and whether it was late."""
        return reader.arrivals(session, first, last)

    def lags_passed(self, session: SessionRow, rounds: Ints, times: Floats, last: int) -> Ints:
        """Return how many lags have passed since decisions of a trajectory up to its `last` round.

        `rounds` and `times` are those of the decisions; a decision's own round counts.
        """
        return last - rounds + 1

    def values_of(
        self, reader: Reader, key: TrajectoryKey, first: int, last: int
    ) -> Iterable[MeasurementRow]:
        """Return the values of a trajectory's decisions from round `first` to round `last`."""
        return reader.measurements(key, first, last)
