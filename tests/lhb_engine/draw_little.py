"""Fits of `anytime` that draw little, for tests of equality to the bit."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest

from lhb_engine.agents import anytime_fit
from lhb_engine.agents.anytime import Anytime
from lhb_engine.findings import all_checks
from lhb_engine.posterior import sparse_profiles


def draw_little(monkeypatch: pytest.MonkeyPatch, *, remembers: bool = True) -> None:
    """Have fits of this process draw little, and once of what is equal to the bit.

    Tests that make a fit in several ways compare what these read: the posterior and the checks of
    equal moments are equal. `tests/contracts/test_agents.py` shows that (`test_fitting_is_pure`),
    so nothing is remembered there.
    """
    few = {"first_sweeps": 2, "sweeps": 1, "kept": 2, "most_chains": 4, "smooth_chains": 1}
    monkeypatch.setattr(Anytime, "settings", replace(Anytime.settings, **few))
    monkeypatch.setattr(sparse_profiles, "SWEEPS", {"sparse": (1, 1, 2), "smooth": (1, 1, 2)})
    known = (
        (anytime_fit, "rank_one_posterior"),
        (anytime_fit, "profile_posterior"),
        (anytime_fit, "gain"),
        (anytime_fit, "spread_of"),
        (all_checks, "checked"),
    )
    for module, name in known if remembers else ():
        monkeypatch.setattr(module, name, once(getattr(module, name)))


def fit_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `anytime` fit half as often, and few times before there are rows enough for sums."""
    growth = {"early": 10.0, "early_growth": 2.0, "middle_growth": 1.15, "late_growth": 1.15}
    monkeypatch.setattr(Anytime, "settings", replace(Anytime.settings, **growth))


def once(work: Callable[..., Any]) -> Callable[..., Any]:
    """Work out each result once, of arguments that are equal to the bit."""
    known: dict[bytes, bytes] = {}

    def remembered(*args: Any, **named: Any) -> Any:
        given = blake2b(pickle.dumps((args, named))).digest()
        if given not in known:
            known[given] = pickle.dumps(work(*args, **named))
        return pickle.loads(known[given])  # one of its own: a caller may change it

    return remembered


@pytest.fixture(autouse=True)
def little_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """For modules whose tests show nothing of how well fits find the truth: they import it."""
    draw_little(monkeypatch)


@pytest.fixture(autouse=True)
def seldom_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """For modules whose tests compare fits with one another: they import it."""
    fit_seldom(monkeypatch)
