"""Fits of `anytime` that draw little, for tests of equality to the bit."""

from dataclasses import replace

import pytest

from lhb_engine.agents.anytime import Anytime
from lhb_engine.posterior import profile_posterior


def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have fits of this process draw little."""
    few = {"first_sweeps": 3, "sweeps": 3, "kept": 3, "most_chains": 8, "smooth_chains": 2}
    monkeypatch.setattr(Anytime, "settings", replace(Anytime.settings, **few))
    monkeypatch.setattr(profile_posterior, "SWEEPS", {"sparse": (1, 3), "smooth": (1, 3)})
