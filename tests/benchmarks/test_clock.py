"""`lhb bench clock`."""

import pytest

from benchmarks.commands.agents import clock


def test_theta_is_found_from_totals_of_slots(capsys: pytest.CaptureFixture[str]) -> None:
    clock(decisions=[3.0], slots=200, seeds=1)
    row = [cell.strip() for cell in capsys.readouterr().out.splitlines()[2].split("|")]
    assert row[1] == "3"
    assert float(row[2]) < 0.01
    assert float(row[5]) < 0.2 * float(row[4])


@pytest.mark.parametrize(("by_user", "users"), [(False, 1), (True, 3)])
def test_a_fit_of_a_stored_session_is_timed(
    capsys: pytest.CaptureFixture[str], by_user: bool, users: int
) -> None:
    clock(fits=["150,2"], by_user=by_user)
    row = [cell.strip() for cell in capsys.readouterr().out.splitlines()[2].split("|")]
    assert row[1:4] == ["trajectory" if by_user else "all", "150", str(300 * users)]
    assert int(row[6]) == 250 * users
    assert int(row[7]) >= 250 * users
    assert float(row[8]) > 0.98
