"""Fits of `anytime` that draw little, for tests of equality to the bit."""

from dataclasses import replace

import pytest

from lhb_engine.agents.anytime import Anytime
from lhb_engine.posterior import profile_posterior


def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have fits of this process draw little."""
    few = {"first_sweeps": 2, "sweeps": 1, "kept": 2, "most_chains": 4, "smooth_chains": 1}
    monkeypatch.setattr(Anytime, "settings", replace(Anytime.settings, **few))
    monkeypatch.setattr(profile_posterior, "SWEEPS", {"sparse": (1, 2), "smooth": (1, 2)})
