"""Findings call features by name, and no check is said to be made that none makes."""

import pytest

from lhb_engine.findings.finding import ASKED, by_names, checked_said

NAMES = ["depth", r"click\1bait", "24"]


@pytest.mark.parametrize(
    ("message", "features", "said"),
    [
        ("Feature 1 is 0", (1,), r'Feature "click\1bait" is 0'),
        (
            "Rewards come more often after choices with more of feature 2, and less often after "
            "choices with more of features 0 and 1: 30 of 60 rounds",
            (0, 1, 2),
            'Rewards come more often after choices with more of feature "24", and less often after '
            r'choices with more of features "depth" and "click\1bait": 30 of 60 rounds',
        ),
        ("Features 0, 1 and 2 vary", (0, 1, 2), r'Features "depth", "click\1bait" and "24" vary'),
        ("Feature 1, for 24 rounds", (1,), r'Feature "click\1bait", for 24 rounds'),
        ("Feature 2 beside feature 0", (2,), 'Feature "24" beside feature 0'),
        ("Feature 2, 12 rounds later", (2,), 'Feature "24", 12 rounds later'),
        ("feature " + 5000 * "1", (1,), "feature " + 5000 * "1"),  # a file may say so
        ("Feature 3 is 0", (3,), "Feature 3 is 0"),  # not all have a name
        ("Feature 1 and 3", (1, 3), "Feature 1 and 3"),
    ],
)
def test_features_have_their_names(message: str, features: tuple[int, ...], said: str) -> None:
    assert by_names(message, features, NAMES) == said


def test_of_what_fits_take_out_no_check_is_said_to_be_made() -> None:
    said = checked_said(["trend"])
    left_out = {"shared_with_rewards", "trend"}
    assert [code for code, words in ASKED.items() if words not in said] == [
        code for code in ASKED if code in left_out
    ]
