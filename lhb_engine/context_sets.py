"""Which rounds' context sets are kept, so that a fit can say what choices among them earn."""

from lhb_engine.history import LATEST

MOST = 64  # sets of the latest rounds
MOST_APART = LATEST // MOST  # so that retention leaves the latest ones
LEAST_APART = 4  # so that many short sessions store little
LEAST = 4  # fewer say nothing of rounds to come


def step(position: int) -> int:
    """Return how far apart kept rounds are beside a round of the session: a power of two."""
    apart = 1 << max(0, position.bit_length() - MOST.bit_length() + 1)
    return min(MOST_APART, max(LEAST_APART, apart))


def is_kept(position: int) -> bool:
    """Return whether the context set of a round is kept: of one in 512 of a long session."""
    return position % step(position) == 0


def latest_kept(last: int) -> list[int]:
    """Return the latest kept rounds up to a round of the session, at most `MOST`, in order."""
    rounds: list[int] = []
    while last > 0 and len(rounds) < MOST:
        last -= last % step(last)
        rounds.append(last)
        last -= 1
    return [round for round in reversed(rounds) if round]
