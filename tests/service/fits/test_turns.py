"""Whose fit is next, in numbers: shares of tenants and sessions, short before long, spare ones."""

from collections import Counter

from service.fits.cost import SHORT_SECONDS
from service.fits.process_places import Places
from service.session.records import SessionKey

LONG = 10 * SHORT_SECONDS


def served(places: Places, waiting: dict[SessionKey, float], n: int) -> list[SessionKey]:
    """The next n fits, where every session always has another one."""
    order = []
    for _ in range(n):
        place = places.take(waiting)
        assert place is not None
        order.append(place.key)
        places.release(place, place.seconds)
    return order


def test_a_tenant_with_many_sessions_gets_no_more_than_one_with_one() -> None:
    waiting = {("many", str(i)): 1.0 for i in range(50)} | {("one", "0"): 1.0}
    turns = Counter(tenant for tenant, _ in served(Places(1), waiting, 40))
    assert turns == {"many": 20, "one": 20}


def test_sessions_of_a_tenant_get_equal_time_and_none_waits_for_ever() -> None:
    waiting = {("a", "long"): LONG, ("a", "short"): 1.0}
    order = served(Places(1), waiting, 66)
    assert order[0] == ("a", "short")
    n_long = order.count(("a", "long"))
    assert 2 <= n_long <= 4  # 20 s each, beside 62 to 64 of 1 s


def test_a_fit_that_took_longer_than_expected_counts_as_long_as_it_took() -> None:
    places, waiting = Places(1), {("liar", ""): 1.0, ("true", ""): 1.0}
    turns: Counter[str] = Counter()
    for _ in range(30):
        place = places.take(waiting)
        assert place is not None
        turns[place.key[0]] += 1
        places.release(place, 9.0 if place.key[0] == "liar" else 1.0)
    assert turns["liar"] <= 4


def test_who_comes_later_has_saved_up_nothing() -> None:
    places = Places(1)
    served(places, {("early", ""): 1.0}, 100)
    both = {("early", ""): 1.0, ("late", ""): 1.0}
    assert Counter(tenant for tenant, _ in served(places, both, 20)) == {"early": 10, "late": 10}


def test_behind_long_fits_only_short_ones_get_the_spare_process() -> None:
    places = Places(2)
    waiting = {("a", str(i)): LONG for i in range(4)}
    first, second = places.take(waiting), places.take(waiting)
    assert first is not None
    assert second is not None
    for place in (first, second):
        assert not place.is_spare
        del waiting[place.key]
    assert places.take(waiting) is None  # two long ones run
    waiting |= {("b", "0"): 1.0, ("b", "1"): 1.0}
    places.has_spare = False
    assert places.take(waiting) is None
    places.has_spare = True
    spare = places.take(waiting)
    assert spare is not None
    assert (spare.key[0], spare.is_spare) == ("b", True)
    assert places.take(waiting) is None  # there is one spare process
    places.release(first, LONG)
    after = places.take({("b", "1"): 1.0})
    assert after is not None
    assert not after.is_spare


def test_behind_short_fits_nobody_gets_the_spare_process() -> None:
    places = Places(1)
    assert places.take({("a", "0"): 1.0}) is not None
    assert places.take({("b", "0"): 1.0}) is None
