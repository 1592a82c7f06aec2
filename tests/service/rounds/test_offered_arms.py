"""What features are called where a session does not name them: as the arms that have them."""

import numpy as np
import pytest

from service.rounds.offered_arms import feature_names
from service.storage.reader import Reader
from tests.service.service_harness import ServiceHarness


def names(harness: ServiceHarness, contexts: list[list[float]]) -> list[str]:
    harness.create(algorithm="anytime", dim=2, horizon=1)
    for _ in range(16):
        harness.decide(contexts=contexts)
    with harness.store.reader() as reader:
        return [*feature_names(reader, harness.session)]


def test_a_feature_that_one_arm_alone_has_is_called_as_the_arm(harness: ServiceHarness) -> None:
    assert names(harness, np.eye(2).tolist()) == ["arm 0", "arm 1"]


def test_a_few_sets_tell_that_arms_have_several_features(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of chosen arms are read only where names may follow from them."""
    monkeypatch.delattr(Reader, "chosen")
    assert names(harness, [[0.3, -0.1], [0.2, 0.9]]) == []
