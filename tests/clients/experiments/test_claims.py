"""A verdict follows from a rule of docs/claims.toml and from nothing else."""

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest

from clients.experiments import EXPERIMENTS
from clients.experiments.framework.claims import (
    Item,
    Outcome,
    Rule,
    Verdict,
    load_rulebook,
)
from clients.experiments.framework.intervals import Interval, SeedMean, Share

RULE = Rule("x.y", "says", "place", "statistic", ("a", "b"), "below", target=1.0, seeds=3)


def at(value: float) -> SeedMean:
    """A mean over three seeds with an interval of about 0.05 either way."""
    return SeedMean(value + np.array([-0.01, 0.0, 0.01]))


def verdict(rule: Rule, *values: float, seeds: int = 3) -> Verdict:
    return Verdict(rule, {name: at(v) for name, v in zip("ab", values, strict=False)}, seeds)


def test_all_settings_must_agree_and_one_can_refute() -> None:
    assert verdict(RULE, 0.5, 0.6).outcome is Outcome.HOLDS
    assert verdict(RULE, 0.5, 1.5).outcome is Outcome.FAILS
    assert verdict(RULE, 0.5, 1.0).outcome is Outcome.UNDECIDED
    assert verdict(RULE, 1.0, 1.5).outcome is Outcome.FAILS


def test_most_settings_are_more_than_half() -> None:
    rule = replace(RULE, quantifier="most")
    assert verdict(rule, 0.5, 0.6).outcome is Outcome.HOLDS
    assert verdict(rule, 0.5, 1.5).outcome is Outcome.FAILS  # half is not most
    assert verdict(rule, 0.5, 1.0).outcome is Outcome.UNDECIDED


def test_fewer_seeds_than_the_rule_says_are_not_judged() -> None:
    few = verdict(RULE, 0.5, 0.6, seeds=2)
    assert few.outcome is Outcome.NOT_JUDGED
    assert str(few) == "not judged (2 of 3 seeds)"


def test_some_seeds_make_a_verdict_provisional() -> None:
    rule = replace(RULE, seeds=40)
    assert str(verdict(rule, 0.5, 0.6, seeds=10)) == "holds (provisional, 10 of 40 seeds)"
    assert verdict(rule, 0.5, 0.6, seeds=9).outcome is Outcome.NOT_JUDGED


def test_a_doubt_stands_beside_the_verdict() -> None:
    rule = replace(RULE, doubt="a theorem checked")
    assert str(verdict(rule, 0.5, 0.6)) == "holds (a theorem checked)"
    assert verdict(rule, 0.5, 0.6, seeds=2).note == "2 of 3 seeds"


def test_other_settings_than_the_rules_are_not_judged() -> None:
    assert verdict(RULE, 0.5).outcome is Outcome.NOT_JUDGED
    other = Verdict(RULE, {"a": at(0.5), "b": at(0.5), "c": at(0.5)}, 3)
    assert other.outcome is Outcome.NOT_JUDGED
    assert "c" in str(other)
    assert str(Verdict(RULE, {}, 3)) == "not judged (not measured by this rule)"


def test_a_verdict_cannot_be_given() -> None:
    with pytest.raises(TypeError):
        Verdict(RULE, {}, 3, outcome=Outcome.HOLDS)  # type: ignore[call-arg]
    with pytest.raises(FrozenInstanceError):
        verdict(RULE, 0.5, 1.5).rule = RULE  # type: ignore[misc]


def test_the_three_relations() -> None:
    below, above = RULE, replace(RULE, relation="above")
    within = replace(RULE, relation="within", margin=0.1)
    cases = {
        (0.2, 0.8): (Outcome.HOLDS, Outcome.FAILS, Outcome.FAILS),
        (1.2, 1.8): (Outcome.FAILS, Outcome.HOLDS, Outcome.FAILS),
        (0.95, 1.05): (Outcome.UNDECIDED, Outcome.UNDECIDED, Outcome.HOLDS),
        (0.5, 1.05): (Outcome.UNDECIDED, Outcome.UNDECIDED, Outcome.UNDECIDED),
        (1.0, 1.0): (Outcome.FAILS, Outcome.FAILS, Outcome.HOLDS),  # equal is not below
    }
    for (low, high), expected in cases.items():
        found = tuple(
            rule.decide(Interval((low + high) / 2, low, high)) for rule in (below, above, within)
        )
        assert found == expected


def test_settings_share_the_error() -> None:
    one = verdict(replace(RULE, settings=("a",)), 0.5).intervals["a"]
    two = verdict(RULE, 0.5, 0.5).intervals["a"]
    assert two.high - two.low > one.high - one.low


def test_a_bound_far_above_says_that_its_rate_is_not_seen() -> None:
    rule = replace(RULE, settings=("a",), bound=True)
    assert str(verdict(rule, 0.2)) == "holds (within the bound; its rate is not seen)"
    assert str(verdict(rule, 0.93)) == "holds"
    none = "holds (no growth seen: within the bound; its rate is not seen)"
    assert str(verdict(rule, 0.02)) == none
    falling = replace(rule, target=-0.5)  # a rate of decay: an exponent below 0 is no surprise
    assert str(verdict(falling, -0.9)) == "holds (within the bound; its rate is not seen)"


def test_a_seed_alone_decides_nothing() -> None:
    one = Verdict(replace(RULE, seeds=1), {n: SeedMean(np.array([0.1])) for n in "ab"}, 1)
    assert one.outcome is Outcome.UNDECIDED


def test_intervals_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    means = [SeedMean(rng.standard_normal(5)).interval(0.9) for _ in range(2000)]
    assert np.mean([i.low < 0 < i.high for i in means]) == pytest.approx(0.9, abs=0.02)
    shares = [Share(int(k), 40).interval(0.9) for k in rng.binomial(40, 0.3, 2000)]
    assert np.mean([i.low < 0.3 < i.high for i in shares]) > 0.89
    assert Share(0, 10).interval(0.9).low == 0.0
    assert Share(10, 10).interval(0.9).high == 1.0


def test_every_claim_belongs_to_an_experiment_and_to_an_item_of_the_paper() -> None:
    book = load_rulebook()
    assert {rule.experiment for rule in book.rules} <= set(EXPERIMENTS)
    listed = {claim for item in book.items for claim in item.claims}
    assert {rule.id for rule in book.rules} == listed
    for rule in book.rules:
        assert rule.seeds >= 40
        if rule.last != "new":
            assert rule.place
            assert all(date >= "2026-11-22" and reason for date, reason in rule.changes)


def test_a_rule_that_says_too_little_or_too_much_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="relation"):
        replace(RULE, relation="near")
    with pytest.raises(ValueError, match="margin"):
        replace(RULE, relation="within")
    with pytest.raises(ValueError, match="settings"):
        replace(RULE, settings=("a", "a"))
    with pytest.raises(ValueError, match="either"):
        Item("place", "what")
    path = tmp_path / "claims.toml"
    path.write_text('[[claim]]\nid = "x.y"\nverdict = "holds"\n')
    with pytest.raises(ValueError, match="verdict"):
        load_rulebook(path)


def test_a_share_less_what_is_expected_keeps_its_width_where_all_agree() -> None:
    """All of 2000 above 1: the share may still be a thousandth less than 1."""
    found = Share(2000, 2000, expected=0.9).interval(0.95)
    assert found.value == pytest.approx(0.1)
    assert found.high == pytest.approx(0.1)
    assert 0.001 < found.high - found.low < 0.003


def test_small_numbers_keep_their_digits() -> None:
    assert str(Interval(1.2e-14, 1.0e-14, 1.4e-14)) == "1.2e-14 [1.0e-14, 1.4e-14]"
    assert str(Interval(0.0, 0.0, 0.0)) == "0.0 [0.0, 0.0]"
