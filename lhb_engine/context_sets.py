"""Which rounds' context sets are kept, so that a fit can say what choices among them earn."""

from lhb_engine.history import LATEST

MOST = 64  # sets of the latest rounds
LEAST_APART = 4  # so that many short sessions store little
LEAST = 4  # fewer say nothing of rounds to come
FEW = f"Fewer than {LEAST} context sets of decisions with several arms are kept."


def step(position: int, latest: int = LATEST) -> int:
    """Return how far apart kept rounds are beside one; retention leaves the latest ones."""
    apart = 1 << max(0, position.bit_length() - MOST.bit_length() + 1)
    return min(max(1, latest // MOST), max(LEAST_APART, apart))


def is_kept(position: int, latest: int = LATEST) -> bool:
    """Return whether the context set of a round is kept: of one in 512 of a long session."""
    return position % step(position, latest) == 0


def latest_kept(last: int, latest: int = LATEST, first: int = 1) -> list[int]:
    """Return the latest kept rounds from a round to another, at most `MOST`, in order."""
    rounds: list[int] = []
    while last > 0 and len(rounds) < MOST:
        last -= last % step(last, latest)
        rounds.append(last)
        last -= 1
    return [round for round in reversed(rounds) if round >= max(first, 1)]
