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
    added,
    design_moments,
    moments_of,
    partial_sums,
    session_moments,
)
from lhb_engine.design.moments import Moments
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from tests.lhb_engine.dense_algebra import toeplitz
from tests.lhb_engine.played_histories import HORIZON, KINDS, history


@st.composite
def histories(draw):
    """Ragged, interleaved trajectories with gaps and spans, and a window that cuts them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim, n_lags = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    lengths = draw(st.lists(st.integers(1, 60), min_size=1, max_size=5))
    n = sum(lengths)
    interleaved = draw(st.booleans())
    owner = np.repeat(np.arange(len(lengths)), lengths)
    if interleaved:
        rng.shuffle(owner)
    longest_span = draw(st.sampled_from([1, 1, 2, 5, 12]))
    keep = draw(st.sampled_from([1.0, 0.9, 0.5]))
    parts = {}
    for i, length in enumerate(lengths):
        first, spans = [], []
        while sum(spans) < length:
            first.append(sum(spans) + 1)
            size = int(rng.integers(1, longest_span + 1)) if rng.random() < 0.5 else longest_span
            spans.append(min(size, length - sum(spans)))
        kept = rng.random(len(first)) < keep
        first, spans = np.array(first)[kept], np.array(spans)[kept]
        measured = Measurements(first, first + spans - 1, rng.normal(2.0, 1.0, len(first)))
        parts[str(i)] = Trajectory(
            rng.normal(0.5, 1.0, (length, dim)),
            measured,
            positions=np.flatnonzero(owner == i) + 1,
        )
    first = draw(st.integers(1, n))
    last = draw(st.integers(first, n))
    return History(dim, parts).over(FitWindow(1, first, last, n_lags, last))


def dense(past, n_lags):
    """Rows [X, sqrt(m), y] by definition, the row before each (or None), and its last round."""
    rows, before, order = [], [], []
    for part in past.trajectories.values():
        lagged = toeplitz([part.contexts], n_lags)
        inside = (part.numbering >= past.window.first) & (part.numbering <= past.window.last)
        at, measured = {}, part.measurements
        for first, last, value in zip(measured.first, measured.last, measured.value, strict=True):
            a, b = first - part.first_round, last - part.first_round + 1
            if not inside[a:b].all():
                continue
            m = b - a
            row = np.append(lagged[a:b].sum(axis=0), [m, value]) / np.sqrt(m)
            before.append(at.get((a, m)))
            at[b, m] = len(rows)
            rows.append(row)
            order.append(part.numbering[b - 1])
    width = n_lags * past.dim + 2
    return np.array(rows).reshape(len(rows), width), before, np.array(order, int)


def sums_of(rows, before, chosen):
    """Sums by definition over the chosen rows and their pairs."""
    p = rows.shape[1]
    out = np.zeros((3, p, p))
    for i in chosen:
        out[0] += np.outer(rows[i], rows[i])
        if before[i] is not None:
            last = rows[before[i]]
            out[1] += np.outer(rows[i], last) + np.outer(last, rows[i])
            out[2] += np.outer(rows[i], rows[i]) + np.outer(last, last)
    return out


def alike(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-10 * max(1.0, np.abs(expected).max()))


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 30))
def test_any_part_of_the_rows_has_its_share(past, cut):
    """Rows after a cut, with the pairs that reach back over it; and both parts add up."""
    rows = align(past)
    matrix, before, order = dense(past, rows.n_lags)
    places = rows.in_order()
    assert rows.last[places].tolist() == sorted(order.tolist())
    early, late = moments_of(rows, places[:cut]), moments_of(rows, places[cut:])
    chosen = np.argsort(order)[cut:]
    if len(matrix):
        alike(late.sums, sums_of(matrix, before, chosen))
    whole = session_moments(rows)
    alike((early + late).sums, whole.sums)
    alike((whole - early).sums, late.sums)
    assert (whole - early).n_pairs == late.n_pairs == whole.n_pairs - early.n_pairs
    assert (whole - early).n_rows == late.n_rows


@settings(max_examples=60, deadline=None)
@given(histories(), st.sampled_from([0.0, 0.3, 0.9]))
def test_whitened_moments_are_those_of_the_whitened_rows(past, rho):
    rows = align(past)
    if rows.n_rows == 0:
        return
    expected = session_moments(whitened(rows, rho)).rows
    found = session_moments(rows).whitened(rho)
    alike(found.matrix, expected.matrix)
    assert found.n_rows == expected.n_rows


@settings(max_examples=60, deadline=None)
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
def test_partial_sums_depend_on_the_order_of_measurements_alone(kind, monkeypatch):
    """Whoever adds, and up to whatever round: equal partial sums, to the bit."""
    monkeypatch.setattr(moment_sums, "GRAIN", 16)
    past = history(**KINDS[kind])
    whole = align(past)
    parts = list(partial_sums(whole))
    assert len(parts) == -(-whole.n_rows // 16)
    assert all(part.n_rows == 16 for part in parts[:-1])
    added = parts[0]
    for part in parts[1:]:
        added = added + part
    assert (added.sums == session_moments(whole).sums).all()
    last = int(whole.last.max()) * 2 // 3
    sooner = align(past.over(replace(past.window, last=last, due=last)))
    for part, again in zip(parts, list(partial_sums(sooner))[:-1], strict=False):
        assert (part.sums == again.sums).all()
        assert part.n_pairs == again.n_pairs


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
    scaled = found.scaled(np.array([2.0, 3.0, 0.5]), 4.0)
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


def test_partial_sums_share_what_they_are_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the sums of n rows would cost n squared: every grain would copy all rows."""
    measured = Measurements.single(np.arange(1, 41), np.arange(40.0))
    whole = History(1, {"": Trajectory(np.ones((40, 1)), measured)})
    rows = align(whole.over(FitWindow(1, 1, 40, 3, 40)))
    made: list[int] = []
    of = moment_sums._Columns.of
    monkeypatch.setattr(moment_sums, "GRAIN", 4)
    monkeypatch.setattr(moment_sums._Columns, "of", lambda *args: made.append(1) or of(*args))
    assert len(list(moment_sums.partial_sums(rows))) == 10
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


@settings(max_examples=80, deadline=None)
@given(histories(), st.integers(0, 2**32 - 1), st.floats(0, 1), st.sampled_from([1, 3, 1000]))
def test_full_grains_do_not_change_with_what_arrives_later(past, seed, share, least_run):
    """In any order of arrival, to the bit; a pair counts when the later of its two arrives."""
    n = sum(len(part.measurements) for part in past.trajectories.values())
    rng = np.random.default_rng(seed)
    past = arriving(past, rng.permutation(n) + 1)
    known = int(share * n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moment_sums, "GRAIN", 8)
        patch.setattr(moment_sums, "LEAST_RUN", least_run)
        whole, sooner = align(past), align(known_by(past, known))
        late, early = list(partial_sums(whole)), list(partial_sums(sooner))
    grains = np.unique((whole.position[whole.in_order()] - 1) // 8)
    for grain, one, other in zip(grains, late, early, strict=False):
        if 8 * (grain + 1) <= known:
            assert one.to_bytes() == other.to_bytes()
    matrix, before, _ = dense(past, whole.n_lags)
    if len(matrix):
        total = late[0]
        for part in late[1:]:
            total = added(total, part)
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
