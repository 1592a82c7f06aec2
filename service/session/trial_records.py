"""The rows of a comparison: what it reads of a round, and its sums. See `service.lift`."""

from typing import NamedTuple

from service.base.field_types import KeyInPath


class PlayedRound(NamedTuple):
    """What a comparison reads of a decision in a session with a trial.

    Scores are float64: of the first 64 arms, of the arm that was played, and of the agent's. They
    are empty or None in a round without action.
    """

    trajectory: str
    round: int
    position: int
    played_by: str
    model_version: int
    n_bytes: int  # of all scores
    first_scores: bytes | None
    score: bytes | None
    agent_score: bytes | None
    agrees: bool | None  # SQLite returns an integer


class LiftSumsRow(NamedTuple):
    """What is summed so far of a session with a trial, from which the next step goes on.

    The rounds up to position `decided` and the rewards up to position `measured` are in the sums.
    Only rounds with positions after `since` count. `sums` is JSON of `service.lift.sums.LiftSums`.
    """

    tenant: str
    session_id: str
    since: int
    decided: int
    measured: int
    sums: str


class LiftUnitRow(NamedTuple):
    """The totals of one unit of a comparison: a trajectory, or a block of the default one.

    Texts are those of `service.lift.exact.Exact`.
    """

    tenant: str
    session_id: str
    since: int
    trajectory: KeyInPath
    block: int  # 0: the whole trajectory
    rounds: float
    reward: str
    predicted: str
