"""Partial sums are the same to the bit, whoever adds, and whatever arrives later."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhb_engine.design import moment_sums
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import (
    grains,
    session_moments,
)
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from tests.examples import examples
from tests.lhb_engine.design.ragged_histories import alike, dense, histories, sums_of
from tests.lhb_engine.played_histories import HORIZON, KINDS, history


@pytest.mark.parametrize("kind", KINDS)
def test_partial_sums_depend_on_the_order_of_measurements_alone(kind):
    """Whoever adds, and up to whatever round: equal partial sums, to the bit."""
    past = replace(history(**KINDS[kind]), grain=16)
    whole = align(past)
    parts = [part for _, part in grains(whole)]
    assert len(parts) == -(-whole.n_rows // 16)
    assert all(part.n_rows == 16 for part in parts[:-1])
    added = parts[0]
    for part in parts[1:]:
        added = added + part
    assert (added.sums == session_moments(whole).sums).all()
    last = int(whole.last.max()) * 2 // 3
    sooner = align(past.over(replace(past.window, last=last, due=last)))
    for part, again in zip(parts, [part for _, part in grains(sooner)][:-1], strict=False):
        assert (part.sums == again.sums).all()
        assert part.n_pairs == again.n_pairs


def test_partial_sums_share_what_they_are_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the sums of n rows would cost n squared: every grain would copy all rows."""
    measured = Measurements.single(np.arange(1, 41), np.arange(40.0))
    whole = History(1, {"": Trajectory(np.ones((40, 1)), measured)})
    rows = replace(align(whole.over(FitWindow(1, 1, 40, 3, 40))), grain=4)
    made: list[int] = []
    of = moment_sums.Columns.of
    monkeypatch.setattr(moment_sums.Columns, "of", lambda *args: made.append(1) or of(*args))
    assert len(list(moment_sums.grains(rows))) == 10
    assert made == [1]


def arriving(past, order):
    """The same history, whose measurements arrived in another order (a permutation from 1)."""
    parts, start = {}, 0
    for key, part in past.trajectories.items():
        stop = start + len(part.measurements)
        measured = replace(part.measurements, position=order[start:stop])
        parts[key], start = replace(part, measurements=measured), stop
    return replace(past, trajectories=parts)


def known_by(past, n):
    """The history as it was when n measurements had come."""
    parts = {
        key: replace(part, measurements=part.measurements.chosen(part.measurements.position <= n))
        for key, part in past.trajectories.items()
    }
    return replace(past, trajectories=parts)


@settings(max_examples=examples(80), deadline=None)
@given(histories(), st.integers(0, 2**32 - 1), st.floats(0, 1), st.sampled_from([1, 3, 1000]))
def test_full_grains_do_not_change_with_what_arrives_later(past, seed, share, least_run):
    """In any order of arrival, to the bit; a pair counts when the later of its two arrives."""
    n = sum(len(part.measurements) for part in past.trajectories.values())
    rng = np.random.default_rng(seed)
    past = replace(arriving(past, rng.permutation(n) + 1), grain=8)
    known = int(share * n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moment_sums, "LEAST_RUN", least_run)
        whole, sooner = align(past), align(known_by(past, known))
        late, early = [part for _, part in grains(whole)], [part for _, part in grains(sooner)]
    numbers = np.unique((whole.position[whole.in_order()] - 1) // 8)
    for grain, one, other in zip(numbers, late, early, strict=False):
        if 8 * (grain + 1) <= known:
            assert one.to_bytes() == other.to_bytes()
    matrix, before, _ = dense(past, whole.n_lags)
    if len(matrix):
        total = late[0]
        for part in late[1:]:
            total = total + part
        alike(total.widened(whole.n_lags).sums, sums_of(matrix, before, range(len(matrix))))


def test_a_sum_over_a_span_does_not_know_where_reading_began():
    """Rounds that are left out before the lags of a row change no bit of it."""
    past = history(n=120, spans=(1, 3, 7))
    [part] = past.trajectories.values()
    cut = replace(part, contexts=part.contexts[50:], first_round=51, positions=part.numbering[50:])
    some = replace(past, trajectories={"0": cut})
    whole, rest = align(past), align(some)
    for place in rest.in_order().tolist():
        first, last = int(rest.number[place]), int(rest.last[place])
        if first <= 51 + HORIZON:
            continue
        [there] = np.flatnonzero((whole.number == first) & (whole.last == last))
        lags = np.arange(HORIZON)
        assert (rest.contexts[place - lags] == whole.contexts[there - lags]).all()
