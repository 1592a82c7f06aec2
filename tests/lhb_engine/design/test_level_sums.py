"""Sums of levels that are kept, against those of each level."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.level_sums import (
    INEXACT,
    LevelErrors,
    Levelled,
    LevelSums,
    level_moments,
    shares,
)
from lhb_engine.design.moments import RowMoments
from lhb_engine.design.replaced_rows import NEVER
from lhb_engine.design.session_sums import changes
from tests.lhb_engine.played_histories import DIM, HORIZON, history

STRETCH = 16


def sums_of(rows):
    total = LevelSums.zero(1, DIM)
    for _, part in changes(rows, (0, NEVER)):
        total = total + part
    return total


def played(**kind):
    past = history(n=90, n_parts=12, baseline=4.0, **kind)
    rng, parts = np.random.default_rng(1), {}
    order = rng.permutation(sum(len(p.measurements) for p in past.trajectories.values())) + 1
    for key, part in past.trajectories.items():
        rows = part.measurements
        mine, order = order[: len(rows)], order[len(rows) :]
        level = 2.0 * rng.standard_normal() * (rows.last - rows.first + 1)
        rows = replace(rows, value=rows.value + level, position=mine)
        parts[key] = replace(part, measurements=rows)
    return align(replace(past, trajectories=parts, levels=STRETCH))


def test_shares_are_nearly_those_of_every_size():
    """Both what a level takes out and what it leaves, to half a percent at every spread."""
    sizes = np.arange(1.0, 3000.0)
    share = shares(sizes)
    nodes = 2.0 ** np.arange(share.shape[1])
    tau2 = np.geomspace(1e-8, 1e8, 100)[:, None]
    kept = 1.0 / (1.0 + tau2 * sizes)
    found = (1.0 / (1.0 + tau2 * nodes)) @ share.T
    np.testing.assert_allclose(found, kept, rtol=5e-3)
    np.testing.assert_allclose(share.sum(axis=1) - found, 1.0 - kept, rtol=5e-3)
    assert (shares(np.zeros(2)) == 0.0).all()


class Levels:
    """Any number of levels of one size, with the errors to expect where their spread is tau."""

    def __init__(self, n, size, tau, inexact):
        each = n * np.array([1.0, size, 1.0 + tau**2 * size])
        share, nodes = np.ones(1), np.array([float(size)])
        if inexact:
            share = shares(nodes)[0]
            nodes = 2.0 ** np.arange(len(share))
        counts, rounds, squares = each[:, None] * share
        self.inexact, self.begun = inexact, n
        self.of_levels = LevelErrors(nodes, counts, rounds, np.zeros(len(nodes)), squares)
        square = np.diag([1.0, n * size, n * size * (1.0 + tau**2)])
        self.rows = RowMoments(square, n * size, 1, 1)

    def errors(self, _):
        return self.of_levels


def test_the_interval_allows_for_what_nodes_move():
    """With ten million levels it is the nodes that say the spread, and not the noise."""
    moved = []
    for size in (2, 3, 5, 11, 12, 23, 45, 90, 181):
        for tau in np.geomspace(0.1, 10.0, 9):
            found = Levelled.spread(Levels(10**7, size, tau, INEXACT), np.zeros(2))
            assert found.low < tau < found.high
            moved.append(abs(found.value / tau - 1.0))
            exact = Levelled.spread(Levels(10**7, size, tau, 0.0), np.zeros(2))
            assert exact.value == pytest.approx(tau, rel=1e-3)
    assert 0.5 * INEXACT < max(moved) < INEXACT


@pytest.mark.parametrize("kind", [{}, {"keep": 0.6}, {"spans": (1, 3, 7)}])
def test_sums_of_any_grains_are_those_of_all_levels(kind):
    rows = replace(played(**kind), grain=64)
    found, exact = sums_of(rows), level_moments(rows)
    assert found.n_rows == exact.n_rows
    assert found.begun == exact.begun == 12
    assert found.counts.sum() == pytest.approx(len(exact.sizes))
    for rho in (0.0, 0.1, 0.9, 0.9999):
        one, other = found.whitened(rho).matrix, exact.whitened(rho).matrix
        scale = np.sqrt(np.outer(np.diag(other), np.diag(other)))
        assert (np.abs(one - other) <= 5e-3 * scale).all()
    by = np.random.default_rng(2).normal(size=HORIZON * DIM + 1)
    by_nodes, each = found.spread(by), exact.spread(by)
    np.testing.assert_allclose(by_nodes[:2], each[:2], rtol=0.03)
    assert by_nodes.low < each.low < each.high < by_nodes.high
    again = LevelSums.from_bytes(found.to_bytes())
    assert again.to_bytes() == found.to_bytes()
    assert (again.sums == found.sums).all()


def test_later_rows_are_judged_by_what_is_known_of_their_levels():
    """The difference of sums is the quadratic form of the later rows given the earlier ones."""
    rows = played()
    early = rows.only((rows.number > 0) & (rows.position <= 640))
    later = (sums_of(rows) - sums_of(early)).whitened(0.9)
    exact = level_moments(rows).whitened(0.9).matrix - level_moments(early).whitened(0.9).matrix
    np.testing.assert_allclose(later.matrix, exact, atol=5e-3 * np.abs(exact).max())
    assert later.n_rows == rows.n_rows - 640


def test_a_level_lasts_a_stretch_of_its_trajectory():
    rows = played(spans=(1, 3))
    first = rows.round - np.rint(rows.intercept**2).astype(int) + 1
    places = np.flatnonzero(rows.number > 0)
    pairs = {
        (o, (f - 1) // STRETCH) for o, f in zip(rows.owner[places], first[places], strict=True)
    }
    assert len(np.unique(rows.level[places])) == len(pairs) == 12 * 6
    assert len(level_moments(rows).sizes) == len(pairs)


@pytest.mark.parametrize("change", [b"", b"x", b"LHBL\2\0"])
def test_bytes_that_are_no_such_sums_are_refused(change):
    data = LevelSums.zero(2, 1).to_bytes()
    with pytest.raises(ValueError, match=r"sums|moments"):
        LevelSums.from_bytes(change + data[len(change) :] if change else data[:-8])
