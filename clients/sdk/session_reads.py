"""What can be read of a session: itself, what it learned, its log."""

from typing import Any

from .answers import (
    CreditAnswer,
    EpochAnswer,
    EstimateAnswer,
    FitAnswer,
    LiftAnswer,
    NoEstimateAnswer,
    RoundAnswer,
    SeriesAnswer,
    SessionAnswer,
    ShadowAnswer,
    TrajectoryAnswer,
)
from .connection import Connection
from .steps import Listing, Steps, listing, operation
from .wire import given, path_of


class SessionReads:
    """One session.

    Attributes
    ----------
    id : str
        Its id; of `Client.session_handle`, what was given there.
    """

    _connection: Connection

    def __init__(self, connection: Any, session: str, info: SessionAnswer | None = None) -> None:
        self._connection = connection
        self._info = info
        self.id = session
        self._path = path_of(session)

    @property
    def info(self) -> SessionAnswer:
        """The session as last read.

        Raises
        ------
        LookupError
            It was not read yet: `read` does that.
        """
        if self._info is None:
            raise LookupError(f"session {self.id!r} was not read yet; `read` does that")
        return self._info

    @operation
    def read(self) -> Steps[SessionAnswer]:
        """Read the session as it is now; `info` keeps it."""
        info: SessionAnswer = yield from self._connection.call("GET", self._path)
        self._info = info
        return info

    @operation
    def estimate(self) -> Steps[EstimateAnswer | NoEstimateAnswer]:
        """Return theta and the lag weights in use; {"status": "none"} before the first fit."""
        answer: EstimateAnswer | NoEstimateAnswer
        answer = yield from self._connection.call("GET", f"{self._path}/estimate")
        return answer

    @operation
    def series(self, *, rounds: int | None = None, bins: int | None = None) -> Steps[SeriesAnswer]:
        """Return the last rounds in bins: mean reward, and what the estimate in use expected."""
        params = given({"rounds": rounds, "bins": bins})
        answer: SeriesAnswer
        answer = yield from self._connection.call("GET", f"{self._path}/series", params=params)
        return answer

    @operation
    def lift(self, *, effect: float | None = None, adjust: bool | None = None) -> Steps[LiftAnswer]:
        """Return what the agent earns beside its control group, a round.

        Parameters
        ----------
        effect : float, optional
            A difference: the answer says how many more rounds would show it.
        adjust : bool, optional
            False leaves the model's prediction out, by default it takes variance away.
        """
        params = given({"effect": effect, "adjust": adjust})
        answer: LiftAnswer
        answer = yield from self._connection.call("GET", f"{self._path}/lift", params=params)
        return answer

    @operation
    def shadow(self) -> Steps[ShadowAnswer]:
        """Return how the agent's choices agree with those that its caller played."""
        answer: ShadowAnswer
        answer = yield from self._connection.call("GET", f"{self._path}/shadow")
        return answer

    @listing
    def estimates(self, *, limit: int | None = None) -> Listing[FitAnswer]:
        """Iterate over the fits, oldest first. `limit`: items of a page."""
        return self._list("estimates", limit=limit)

    @listing
    def epochs(self, *, limit: int | None = None) -> Listing[EpochAnswer]:
        """Iterate over the schedule: what was fitted, what is due and why, what is next."""
        return self._list("epochs", limit=limit)

    @listing
    def trajectories(self, *, limit: int | None = None) -> Listing[TrajectoryAnswer]:
        """Iterate over the trajectories, in order of their keys."""
        return self._list("trajectories", limit=limit)

    @listing
    def rounds(
        self, *, trajectory: str | None = None, limit: int | None = None
    ) -> Listing[RoundAnswer]:
        """Iterate over a trajectory's log: one item a round, oldest first."""
        return self._list("rounds", trajectory=trajectory, limit=limit)

    @listing
    def credit(
        self, *, trajectory: str | None = None, limit: int | None = None
    ) -> Listing[CreditAnswer]:
        """Iterate over past decisions: what each has earned, and is still expected to earn."""
        return self._list("credit", trajectory=trajectory, limit=limit)

    def _list(self, resource: str, **params: Any) -> Listing[Any]:
        return Listing(f"{self._path}/{resource}", given(params), lambda item: item)
