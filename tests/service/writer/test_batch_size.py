"""How many commands a transaction takes, by what the last ones cost."""

import pytest

from service.writer.command_queue import COMMAND_SECONDS, BatchSize

MOST = 256  # a setting's default
SECONDS = 0.0015


def played(size: BatchSize, each: float, times: int = 200, waiting: int = MOST) -> list[float]:
    """Play transactions whose commands cost `each`; return what the transactions take."""
    taken = []
    for _ in range(times):
        n = min(size.n_commands, waiting)
        taken.append(n * each)
        size.note(n, taken[-1])
    return taken


@pytest.mark.parametrize("each", [0.000005, 0.00005, 0.0001, 0.0005, 0.003])
def test_a_transaction_takes_its_time(each: float) -> None:
    size = BatchSize(MOST, SECONDS)
    taken = played(size, each)
    assert max(taken[-50:]) <= max(1.01 * SECONDS, each)
    if MOST * each > SECONDS:  # and not much less, but for a command
        assert min(taken[-50:]) > 0.95 * SECONDS - each
    else:
        assert size.n_commands > 200


def test_a_command_that_takes_longer_is_alone() -> None:
    size = BatchSize(MOST, SECONDS)
    played(size, 0.05)
    assert size.n_commands == 1


def test_a_dearer_flood_is_believed_at_once() -> None:
    size = BatchSize(MOST, SECONDS)
    played(size, 0.00002)
    taken = played(size, 0.0005)
    assert taken[0] > 10 * SECONDS
    assert max(taken[1:]) <= 1.1 * SECONDS


def test_one_long_command_costs_others_their_time_for_some_transactions() -> None:
    size = BatchSize(MOST, SECONDS)
    played(size, 0.00005)
    before = size.n_commands
    size.note(1, 0.1)
    assert size.n_commands == 1
    played(size, 0.00005, 40)
    assert size.n_commands == pytest.approx(before, rel=0.1)


def test_what_several_tenants_wait_for_takes_half_the_time() -> None:
    """Also where commands cost now less, now more: a half that took longer is believed at once."""
    size = BatchSize(MOST, SECONDS)
    taken = []
    for i in range(200):
        n = size.begin(2)
        taken.append(n * (0.00004, 0.00006)[i % 2])
        size.note(n, taken[-1])
    assert 0.45 * SECONDS < max(taken[-50:]) < 1.5 * 0.51 * SECONDS
    assert size.begin(1) == size.n_commands
    assert size.begin(2) == size.begin(1) // 2


def test_without_a_measurement_a_guess_counts() -> None:
    assert BatchSize(MOST, SECONDS).n_commands == int(SECONDS / COMMAND_SECONDS)
