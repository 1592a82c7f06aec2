"""Limits of kept sums that are low enough for a test."""

import pytest

import lhb_engine.history
import service.commands.drop_rounds
import service.fits.prepared_fit
import service.rounds.retention
from lhb_engine import context_sets
from lhb_engine.agents import anytime, fit_past
from lhb_engine.design import moment_sums
from lhb_engine.findings import all_checks
from service.rounds import history, slot_history

# each has taken LATEST from lhb_engine.history as it was imported
READERS = (
    anytime,
    fit_past,
    history,
    slot_history,
    service.fits.prepared_fit,
    all_checks,
    service.commands.drop_rounds,
    service.rounds.retention,
)


def keep_sums_from(monkeypatch: pytest.MonkeyPatch, latest: int, grain: int = 16) -> None:
    """Fits go on from sums where there are more than `latest` rounds or slots."""
    for module in READERS:
        monkeypatch.setattr(module, "LATEST", latest)
    for module in (history, lhb_engine.history):
        monkeypatch.setattr(module, "MOST_READ", 2)
    monkeypatch.setattr(context_sets, "MOST_APART", max(1, latest // context_sets.MOST))
    monkeypatch.setattr(moment_sums, "GRAIN", grain)
