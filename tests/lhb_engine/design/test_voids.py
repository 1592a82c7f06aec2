"""Rows that a void changes: what was summed before stays, and the sum of all is that without it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.covariates import Covariates
from lhb_engine.design.level_sums import LevelSums
from lhb_engine.design.moments import Moments
from lhb_engine.design.presample import with_presample
from lhb_engine.design.products import with_products
from lhb_engine.design.replaced_rows import NEVER
from lhb_engine.design.session_sums import changes
from lhb_engine.history import BeforeVoids, Measurements, Parts
from tests.examples import examples
from tests.lhb_engine.design.ragged_histories import histories

GRAIN = 8


def eventful(past, rng, n_voids):
    """Measurements, corrections of some of them, and voids, in any order of arrival.

    As rounds of `Parts`, whose contexts hold the means of what was offered after those chosen.
    """
    parts = Parts.of(past.trajectories)
    rows, counts = parts.measurements, parts.counts
    again = rng.random(len(rows)) < 0.2
    times = 1 + again
    source = np.repeat(np.arange(len(rows)), times)
    void = rng.choice(len(parts.contexts), min(n_voids, len(parts.contexts)), replace=False)
    order = rng.permutation(len(source) + len(void)) + 1
    value = rng.normal(2.0, 1.0, len(source))
    first, last = rows.first[source], rows.last[source]
    measured = Measurements(first, last, value, order[: len(source)])
    ends = np.cumsum(counts)
    n_each = [int(times[stop - n : stop].sum()) for n, stop in zip(counts, ends, strict=True)]
    voided = np.zeros(len(parts.contexts), np.int64)
    voided[void] = order[len(source) :]
    means = rng.normal(0.5, 1.0, (len(parts.contexts), past.dim + 1))
    contexts = np.concatenate([parts.contexts, means], axis=1)
    counts = np.array(n_each, np.int64)
    return replace(parts, contexts=contexts, measurements=measured, counts=counts), voided


def known_by(past, parts, voided, n, levels):
    """The history as it was when so many measurements and voids had come, as a fit is told of it.

    Without `n` it is as it is now, and knows what it was.
    """
    rows = parts.measurements
    kept = rows.position <= n
    counts = np.add.reduceat(np.append(kept, False), np.cumsum(parts.counts) - parts.counts)
    counts[parts.counts == 0] = 0
    contexts = parts.contexts.copy()
    none = np.zeros((len(contexts), 0))
    before = BeforeVoids(np.where(voided <= n, voided, 0), parts.contexts, none)
    contexts[(voided > 0) & (voided <= n)] = 0.0
    some = replace(
        parts, contexts=contexts, measurements=rows.chosen(kept), counts=counts, before_voids=before
    )
    history = replace(past, trajectories=some, grain=GRAIN, levels=levels)
    told = with_products(Covariates(trend=True, means=past.dim).told(history), ((0, 0),))
    return with_presample(told)


def steps(history, levels):
    """The bytes of what each grain changes, and the sum of all."""
    rows = align(history)
    total = (LevelSums if levels else Moments).zero(1, rows.dim, rows.groups)
    found = {}
    for grain, part in changes(rows, (0, NEVER)):
        total = total + part
        found[grain] = part
    return found, total, rows


@settings(max_examples=examples(60), deadline=None)
@given(histories(), st.integers(0, 2**32 - 1), st.floats(0, 1), st.integers(1, 12))
@pytest.mark.parametrize("levels", [0, 16])
def test_what_was_summed_before_a_void_stays(levels, past, seed, share, n_voids):
    """Full grains are equal to the bit; all together are the moments of rows without the voids."""
    rng = np.random.default_rng(seed)
    parts, voided = eventful(past, rng, n_voids)
    n = len(parts.measurements) + np.count_nonzero(voided)
    known = int(share * n)
    late, total, rows = steps(known_by(past, parts, voided, n, levels), levels)
    early, _, sooner = steps(known_by(past, parts, voided, known, levels), levels)
    if sooner.n_lags == rows.n_lags:
        for grain, one in early.items():
            if GRAIN * (grain + 1) <= known:
                assert one.to_bytes() == late[grain].to_bytes()
    plain = known_by(past, parts, voided, n, levels)
    bare = Parts.of(plain.trajectories)
    now = align(replace(plain, trajectories=replace(bare, before_voids=None)))
    expected = (LevelSums if levels else Moments).zero(1, now.dim, now.groups)
    for _, part in changes(now.at(NEVER - 1), (0, NEVER)):
        expected = expected + part
    size = max(1.0, np.abs(expected.sums).max(initial=0.0))
    assert total.n_rows == expected.n_rows
    n_lags = max(total.n_lags, expected.n_lags)
    one, other = total.widened(n_lags).sums, expected.widened(n_lags).sums
    nodes = min(len(one), len(other))
    np.testing.assert_allclose(one[:nodes], other[:nodes], atol=1e-8 * size)
    np.testing.assert_allclose(one[nodes:], 0.0, atol=1e-8 * size)


@settings(max_examples=examples(60), deadline=None)
@given(histories(), st.integers(0, 2**32 - 1), st.floats(0, 1), st.integers(1, 12))
def test_rows_are_known_as_they_were(past, seed, share, n_voids):
    """At each position: values, covariates, and the contexts of their lags."""
    rng = np.random.default_rng(seed)
    parts, voided = eventful(past, rng, n_voids)
    n = len(parts.measurements) + np.count_nonzero(voided)
    known = int(share * n)
    then = align(known_by(past, parts, voided, n, 0)).at(known)
    now = align(known_by(past, parts, voided, known, 0)).at(known)
    lags = np.arange(now.n_lags)
    places = {
        (int(then.owner[i]), int(then.number[i]), int(then.last[i])): i for i in then.in_order()
    }
    assert len(places) == now.n_rows
    for i in now.in_order():
        j = places[int(now.owner[i]), int(now.number[i]), int(now.last[i])]
        assert then.y[j] == now.y[i]
        assert (then.covariates[j] == now.covariates[i]).all()
        assert (then.contexts[j - lags] == now.contexts[i - lags]).all()
