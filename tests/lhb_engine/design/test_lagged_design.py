from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lhb_engine.design.lagged_design import MOST_PAIRS, LaggedDesign
from lhb_engine.design.overlap_save import SingleRows
from tests.examples import examples
from tests.lhb_engine.dense_algebra import held, span_rows, toeplitz


@st.composite
def problems(draw):
    """Trajectories, a number of lags, and a measurement: none, missing, spans or differences."""
    dim, n_lags = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    lengths = draw(st.lists(st.integers(0, 60), min_size=1, max_size=6).filter(any))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = [rng.standard_normal((n, dim)) for n in lengths]
    n_rounds = sum(lengths)
    kind = draw(st.sampled_from(["all", "missing", "spans", "differences", "any"]))
    M = None
    if kind == "missing":
        M = sparse.eye_array(n_rounds).tocsr()[rng.random(n_rounds) < 0.6]
    elif kind == "spans":
        ends = np.unique(rng.integers(0, n_rounds, size=8)).tolist()
        M = span_rows(list(zip(ends[:-1], [e - 1 for e in ends[1:]], strict=True)), n_rounds)
    elif kind == "differences":
        m = max(1, n_rounds // 3)
        plus, minus = rng.integers(0, n_rounds, size=(2, m))
        M = sparse.csr_array(
            (
                np.r_[np.ones(m), -np.ones(m)],
                (np.r_[np.arange(m), np.arange(m)], np.r_[plus, minus]),
            ),
            shape=(m, n_rounds),
        )
    elif kind == "any":
        M = sparse.random_array((7, n_rounds), density=0.2, rng=rng)
    return parts, n_lags, M, rng


@settings(max_examples=examples(150), deadline=None)
@given(problems())
def test_operator_equals_dense_matrix(problem):
    parts, n_lags, M, rng = problem
    design, X = LaggedDesign(parts, n_lags), toeplitz(parts, n_lags)
    ones = np.ones(len(X))
    if M is not None:
        design, X, ones = design.measure(M), M @ X, M @ ones
    phi, v = rng.standard_normal((n_lags, design.dim)), rng.standard_normal(len(X))
    assert design.shape == X.shape
    np.testing.assert_allclose(design.toarray(), X, atol=1e-12)
    np.testing.assert_allclose(design.matvec(phi), X @ phi.ravel(), atol=1e-10)
    np.testing.assert_allclose(design.rmatvec(v).ravel(), X.T @ v, atol=1e-10)
    np.testing.assert_allclose(design.intercept, ones, atol=1e-12)
    np.testing.assert_allclose(design.square_sum, (X**2).sum(), rtol=1e-10, atol=1e-10)


def test_measuring_twice_composes():
    rng = np.random.default_rng(0)
    first = sparse.random_array((9, 30), density=0.3, rng=rng)
    second = sparse.random_array((4, 9), density=0.5, rng=rng)
    contexts = rng.standard_normal((30, 2))
    twice = LaggedDesign(contexts, 5).measure(first).measure(second)
    np.testing.assert_allclose(twice.toarray(), second @ (first @ toeplitz([contexts], 5)))


def test_many_short_trajectories_are_not_padded_to_the_longest():
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((n, 2)) for n in [3000] + [7] * 500]
    assert held(LaggedDesign(parts, 200)) < 3 * (3000 + 500 * 7)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad):
    contexts = np.ones((5, 2))
    contexts[3, 1] = bad
    with pytest.raises(ValueError, match="finite"):
        LaggedDesign(contexts, 2)
    with pytest.raises(ValueError, match="finite"):
        LaggedDesign(np.ones((5, 2)), 2).measure(sparse.csr_array(np.full((1, 5), bad)))


def test_contexts_of_two_widths_are_refused():
    with pytest.raises(ValueError, match="same dim"):
        LaggedDesign([np.ones((5, 2)), np.ones((5, 3))], 2)


@pytest.mark.parametrize(
    ("lengths", "rows"),
    [
        ([300], np.arange(40, 300)),
        ([300], np.arange(300)),
        ([90, 5, 120], np.arange(215)),  # some shorter than the lags
        ([200], np.r_[3:60, 70:140, 150:199]),
        ([120, 90], np.r_[0:50, 60:120, 121:200]),
    ],
)
def test_the_gram_matrix_is_that_of_the_dense_rows(lengths, rows):
    rng = np.random.default_rng(4)
    parts = [1 + rng.standard_normal((n, 3)) for n in lengths]
    design = LaggedDesign(parts, 12).select(rows)
    X = design.toarray()
    upper = np.triu(design.gram())
    np.testing.assert_allclose(upper, np.triu(X.T @ X), atol=1e-11 * len(rows))


def test_no_gram_matrix_of_scattered_or_combined_rows():
    design = LaggedDesign(np.ones((100, 2)), 5)
    assert design.select(np.arange(0, 100, 2)).gram() is None
    assert design.measure(np.full((3, 100), 0.1)).gram() is None


@settings(max_examples=examples(80), deadline=None)
@given(problems(), st.booleans())
def test_columns_are_those_of_the_dense_matrix(problem, in_a_run):
    parts, n_lags, M, rng = problem
    design = LaggedDesign(parts, n_lags)
    if M is not None:
        design = design.measure(M)
    elif in_a_run:
        design = design.select(np.arange(design.n_rows // 3, design.n_rows))
    else:
        design = design.select(rng.permutation(design.n_rows))
    lags = rng.permutation(n_lags)[:5]
    out = np.full((len(lags) * design.dim, design.n_rows), np.nan)
    design.columns(lags, out)
    np.testing.assert_array_equal(out.T, design.blocks(lags).reshape(out.T.shape))


def mixed_rows(lengths, rng):
    """Totals over 7 and 4 rounds, differences of them 20 rounds apart, and rows of no pattern."""
    n = sum(lengths)
    rows = []
    starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    for start, stop in pairwise(starts):
        for size in (7, 4):
            rows += [[(t, size**-0.5) for t in range(a, a + size)]
                     for a in range(start, stop - size + 1, size)]  # fmt: skip
        rows += [
            [(t, 0.5) for t in range(a, a + 4)] + [(t - 20, -0.5) for t in range(a, a + 4)]
            for a in range(start + 20, stop - 3, 3)
        ]
    rows += [[], [(starts[1] - 1, 1.0), (starts[1], -2.0)]]  # none; of two trajectories
    rows += [[(int(t), float(rng.standard_normal())) for t in rng.choice(n, 5)]]
    M = sparse.lil_array((len(rows), n))
    for i, row in enumerate(rows):
        for t, weight in row:
            M[i, t] += weight
    return M.tocsr()[rng.permutation(len(rows))]


@pytest.mark.parametrize("lengths", [[200], [90, 5, 120]])
@pytest.mark.parametrize("n_lags", [6, 150])
def test_rows_combine_rounds_of_any_pattern(lengths, n_lags):
    rng = np.random.default_rng(7)
    lengths = [*lengths, 30]
    parts = [rng.standard_normal((n, 3)) for n in lengths]
    M, X = mixed_rows(lengths, rng), toeplitz(parts, n_lags)
    design = LaggedDesign(parts, n_lags).measure(M)
    np.testing.assert_allclose(design.toarray(), M @ X, atol=1e-13)
    np.testing.assert_allclose(design.square_sum, ((M @ X) ** 2).sum(), rtol=1e-12)
    assert design.square_bound >= design.square_sum


def test_the_squares_of_a_very_long_total():
    contexts = np.random.default_rng(9).standard_normal((2200, 2))
    M = span_rows([(0, 2099), (2100, 2104)], 2200)
    design = LaggedDesign(contexts, 4).measure(M)
    assert MOST_PAIRS < 2100**2
    expected = ((M @ toeplitz([contexts], 4)) ** 2).sum()
    np.testing.assert_allclose(design.square_sum, expected, rtol=1e-12)


def test_a_huge_context_leaves_later_totals_exact():
    """Sums over a span are of its own rounds, not differences of sums since the beginning."""
    rng = np.random.default_rng(8)
    contexts = rng.standard_normal((70, 2))
    contexts[0] = 1e18
    design = LaggedDesign(contexts, 5).measure(span_rows([(a, a + 6) for a in range(0, 64, 7)], 70))
    small = contexts.copy()
    small[0] = 0
    expected = span_rows([(a, a + 6) for a in range(14, 64, 7)], 70) @ toeplitz([small], 5)
    np.testing.assert_allclose(design.toarray()[2:], expected, rtol=1e-12, atol=1e-14)


def test_rows_of_a_trajectory_each_are_stored():
    rng = np.random.default_rng(6)
    contexts = [rng.standard_normal((n, 2)) for n in (9, 4, 12)]
    design = LaggedDesign(contexts, 5).select([8, 11, 15])
    (bank,) = design._banks
    assert isinstance(bank, SingleRows)
    phi, v = rng.standard_normal((5, 2)), rng.standard_normal(3)
    dense = toeplitz(contexts, 5)[[8, 11, 15]]
    np.testing.assert_allclose(design.matvec(phi), dense @ phi.ravel(), atol=1e-12)
    np.testing.assert_allclose(design.rmatvec(v).ravel(), dense.T @ v, atol=1e-12)
    # a row of many lags is longer than the rounds that it is made from
    assert not isinstance(LaggedDesign(contexts, 20).select([8, 11, 15])._banks[0], SingleRows)
    assert not isinstance(LaggedDesign(contexts, 5).select([7, 8])._banks[0], SingleRows)
