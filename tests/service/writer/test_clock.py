"""The stored time never goes back."""

from service.api.answer_models import timestamp
from service.writer.group_commit import Clock


class Times:
    """A clock that may be set, and one that cannot be."""

    def __init__(self) -> None:
        self.system, self.steady = 1000.0, 50.0
        self.clock = Clock(lambda: self.system, lambda: self.steady)

    def after(self, seconds: float, step: float = 0.0) -> float:
        """The time so much later, the system's clock set meanwhile."""
        self.steady += seconds
        self.system += seconds + step
        return self.clock()


def test_it_is_the_systems_clock_while_that_goes_on() -> None:
    times = Times()
    assert [times.after(1.0), times.after(2.0), times.after(3.0, step=100.0)] == [1001, 1003, 1106]


def test_set_back_it_goes_on_at_half_its_pace_until_caught_up_with() -> None:
    times = Times()
    assert times.after(0.0, step=-60.0) == 1000.0
    assert times.after(10.0) == 1005.0
    assert times.after(0.0, step=-5.0) == 1005.0
    assert times.after(100.0) == 1055.0  # the system: 1045
    assert times.after(40.0) == 1085.0
    assert times.after(1.0) == 1086.0


def test_times_are_in_order_as_texts_too() -> None:
    seconds = [1.0, 1.000001, 1.05, 2.0]
    told = [str(timestamp(at)) for at in seconds]
    assert told[0] == "1970-01-01T00:00:01.000000Z"
    assert told == sorted(told)
