"""A reward as a request has it."""

from dataclasses import dataclass
from datetime import datetime

from service.session.covariates import in_order
from service.session.records import SessionKey, number_in
from service.storage.ports import Keys


@dataclass(slots=True)  # a frozen one takes three times as long to make
class Reward:
    """A value, and when it was measured: by round, event id, span of rounds, time or interval.

    An interval begins at `since` and ends before `until`.

    A correction names what it replaces: by the reward id in `replaces`, or by its rounds, with
    `correct`.
    """

    value: float
    trajectory: str
    round: int | None = None
    event_id: str | None = None
    first_round: int | None = None
    last_round: int | None = None
    at: datetime | None = None
    reward_id: str | None = None
    correct: bool = False
    replaces: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    covariates: dict[str, float] | None = None

    @property
    def is_correction(self) -> bool:
        """Whether it replaces a value that the service has."""
        return self.correct or self.replaces is not None

    def asked(self) -> tuple[object, ...]:
        """Return every field, for comparison with a repeat."""
        times = (time and time.timestamp() for time in (self.at, self.since, self.until))
        return (
            *(self.value, self.trajectory, self.round, self.event_id),
            *(self.first_round, self.last_round, self.reward_id, self.correct, self.replaces),
            *times,
            in_order(self.covariates),
        )

    def keys(self, session: SessionKey, keys: Keys) -> None:
        """Add the rows that checking this reward reads."""
        trajectory = (*session, self.trajectory)
        keys.sessions.add(session)
        keys.trajectories.add(trajectory)
        if self.round is not None and self.round > 0:
            keys.rounds.add((trajectory, self.round))
        number = None if self.event_id is None else number_in(self.event_id)
        if number is not None:
            keys.numbers.add((trajectory, number))
        elif self.event_id is not None:
            keys.events.add((trajectory, self.event_id))
        for name in (self.reward_id, self.replaces):
            if name is not None:
                keys.rewards.add((trajectory, name))
