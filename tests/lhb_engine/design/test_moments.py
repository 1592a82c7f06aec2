"""Moments are those of the dense rows, whatever was measured, and add up to the bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhb_engine.design import moment_sums
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.coloured_noise import whitened
from lhb_engine.design.fit_rows import differenced_rows, measured_rows
from lhb_engine.design.moment_sums import (
    design_moments,
    moments_of,
    session_moments,
)
from lhb_engine.design.moments import Moments
from lhb_engine.history import FitWindow
from tests.examples import examples
from tests.lhb_engine.design.ragged_histories import alike, dense, histories, sums_of
from tests.lhb_engine.played_histories import KINDS, history


@settings(max_examples=examples(150), deadline=None)
@given(histories(), st.sampled_from([1, 3, 16, 1000]))
def test_moments_are_those_of_the_dense_rows(past, least_run):
    rows = align(past)
    matrix, before, _ = dense(past, rows.n_lags)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moment_sums, "LEAST_RUN", least_run)
        found = session_moments(rows)
    if len(matrix) == 0:
        assert not found.sums.any()
        assert found.n_rows == 0
        return
    alike(found.sums, sums_of(matrix, before, range(len(matrix))))
    assert (found.sums == found.sums.transpose(0, 2, 1)).all()
    assert found.n_rows == len(matrix)
    assert found.n_pairs == sum(b is not None for b in before)


@settings(max_examples=examples(60), deadline=None)
@given(histories(), st.integers(0, 30))
def test_any_part_of_the_rows_has_its_share(past, cut):
    """Rows after a cut, with the pairs that reach back over it; and both parts add up."""
    rows = align(past)
    matrix, before, order = dense(past, rows.n_lags)
    places = rows.in_order()
    assert rows.last[places].tolist() == sorted(order.tolist())
    early, late = (
        moments_of(rows, some).widened(rows.n_lags) for some in (places[:cut], places[cut:])
    )
    chosen = np.argsort(order)[cut:]
    if len(matrix):
        alike(late.sums, sums_of(matrix, before, chosen))
    whole = session_moments(rows)
    alike((early + late).sums, whole.sums)
    alike((whole - early).sums, late.sums)
    assert (whole - early).n_pairs == late.n_pairs == whole.n_pairs - early.n_pairs
    assert (whole - early).n_rows == late.n_rows


@settings(max_examples=examples(60), deadline=None)
@given(histories(), st.sampled_from([0.0, 0.3, 0.9]))
def test_whitened_moments_are_those_of_the_whitened_rows(past, rho):
    rows = align(past)
    if rows.n_rows == 0:
        return
    expected = session_moments(whitened(rows, rho)).rows
    found = session_moments(rows).whitened(rho)
    alike(found.matrix, expected.matrix)
    assert found.n_rows == expected.n_rows


@settings(max_examples=examples(60), deadline=None)
@given(histories(), st.integers(0, 3))
def test_bytes_hold_moments_to_the_bit(past, n_more):
    rows = align(past)
    rng = np.random.default_rng(0)
    others = rng.standard_normal((len(rows.y), n_more)) * (rows.number > 0)[:, None]
    found = session_moments(replace(rows, covariates=others, groups=(1,) * n_more))
    again = Moments.from_bytes(found.to_bytes(), (1,) * n_more)
    with pytest.raises(ValueError, match="covariates"):
        Moments.from_bytes(found.to_bytes(), (2,) * (n_more + 1))
    assert (again.sums == found.sums).all()
    for name in ("n_rows", "n_pairs", "n_lags", "dim", "n_covariates", "groups"):
        assert getattr(again, name) == getattr(found, name)
    assert again.to_bytes() == found.to_bytes()


def test_bytes_that_are_no_moments_are_refused():
    data = session_moments(align(history(n=20))).to_bytes()
    for wrong, why in (
        (b"", "no moments"),
        (b"JUNK" + data[4:], "no moments"),
        (data[:4] + b"\x02" + data[5:], "version 2"),
        (data[:-1], "header says otherwise"),
        (data + b"\x00", "header says otherwise"),
        (data[:8] + b"\xff" * 8 + data[16:], "impossible size"),
    ):
        with pytest.raises(ValueError, match=why):
            Moments.from_bytes(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_design_give_the_same_moments(kind):
    past = history(**KINDS[kind])
    rows = measured_rows(past)
    found = design_moments(rows.design, rows.y, rows.design.intercept[:, None])
    alike(found.matrix, session_moments(align(past)).rows.matrix)


@pytest.mark.parametrize("spans", [(), (1, 3)])
def test_moments_of_differences_of_pairs(spans):
    past = history(n=200, spans=spans).over(FitWindow(1, 1, 200, 12, 200))
    rows = differenced_rows(past, 50)
    assert rows is not None
    assert rows.name == "differenced"
    covariates = np.stack([rows.design.intercept, np.arange(rows.design.n_rows)], axis=1)
    found = design_moments(rows.design, rows.y, covariates)
    each = np.concatenate([rows.design.toarray(), covariates, rows.y[:, None]], axis=1)
    alike(found.matrix, each.T @ each)
    assert found.n_covariates == 2


def test_parts_of_the_matrix_are_what_their_names_say():
    rng = np.random.default_rng(3)
    rows = align(history(n=50))
    trend = np.where(rows.number > 0, rng.standard_normal(len(rows.y)), 0.0)
    rows = replace(rows, covariates=trend[:, None], groups=(1,))
    z = rows.beside
    found = session_moments(rows).rows
    matrix, _, _ = dense(history(n=50), rows.n_lags)
    X, y = matrix[:, :-2], matrix[:, -1]
    alike(found.gram, X.T @ X)
    alike(found.cross.reshape(-1, 2), X.T @ z)
    alike(found.target.ravel(), X.T @ y)
    alike(found.covariates, z.T @ z)
    alike(found.covariate_target, z.T @ y)
    alike(found.square, y @ y)
    coefficients = rng.standard_normal((3, X.shape[1] + 2))
    left = y[:, None] - np.concatenate([X, z], axis=1) @ coefficients.T
    alike(found.residual_products(coefficients), left.T @ left)
    scaled = found.divided(np.array([1 / 2, 1 / 3, 2.0]), 1 / 4)
    by = np.tile([2.0, 3.0, 0.5], rows.n_lags)
    alike(scaled.target.ravel(), (X * by).T @ y * 4.0)
    alike(scaled.cross.reshape(-1, 2), (X * by).T @ z)
    alike(scaled.square, 16.0 * (y @ y))


def test_only_moments_of_one_kind_add_up():
    one, other = Moments.zero(3, 2), Moments.zero(2, 3)
    for wrong in (
        other,
        Moments.zero(3, 2, (1,)),
        replace(Moments.zero(3, 2, (2,)), groups=(1, 1)),
    ):
        with pytest.raises(ValueError, match="cannot be added"):
            one + wrong
        with pytest.raises(ValueError, match="cannot be added"):
            one - wrong
        with pytest.raises(ValueError, match="cannot be added"):
            one.rows + wrong.rows


def test_more_lags_than_rounds_have_no_contexts():
    rows = align(history(n=6))
    found = session_moments(rows).widened(9)
    expected, _, _ = dense(history(n=6), 9)
    assert rows.n_lags == 6
    alike(found.rows.matrix, expected.T @ expected)
    assert (found.n_lags, found.n_pairs, found.n_covariates) == (9, 5, 1)
