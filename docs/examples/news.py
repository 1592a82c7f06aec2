"""A news site: which stories bring readers back.

    python docs/examples/news.py http://127.0.0.1:8080

A reader who comes sees one lead story. Whether they come again is the number to raise. A visit is
caused by the stories of the days before it, never by the story that is shown during it.
"""

import sys
from pathlib import Path

import numpy as np
from lag_plot import draw, say

from lhb import Client

READERS, DAYS, HORIZON = 60, 60, 10
FEATURES = ["depth", "clickbait", "local", "length"]
THETA = np.array([0.9, -0.4, 0.3, 0.0])  # what brings readers back; the service has to find it
WEIGHTS = np.array([0.35, 0.25, 0.2, 0.12, 0.08, 0, 0, 0, 0, 0])  # after 1, 2, 3, ... days


class Readers:
    """A made-up audience: each reader comes more often the better the last stories were."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.seen = np.zeros((READERS, DAYS + HORIZON + 1, len(FEATURES)))  # 0: no story that day

    def come(self, day: int) -> np.ndarray:
        """Return who comes on this day, (READERS,) bool."""
        past = self.seen[:, day + HORIZON - 1 : day - 1 : -1]  # yesterday, the day before, ...
        pull = np.einsum("k,rkd,d->r", WEIGHTS, past, THETA)
        return self.rng.random(READERS) < np.clip(0.25 + 0.9 * pull, 0.02, 0.98)

    def stories(self) -> np.ndarray:
        """Return the features of eight stories, (8, 4), each between 0 and 1."""
        return np.clip(self.rng.normal(0.4, 0.35, (8, len(FEATURES))), 0, 1)

    def read(self, reader: int, day: int, story: np.ndarray) -> None:
        """Remember the story that a reader saw."""
        self.seen[reader, day + HORIZON] = story


def play(url: str, name: str, algorithm: str, late: int = 1) -> tuple[list[float], dict]:
    """Run the site for `DAYS` days; return the share of readers a day, and the estimate.

    A visit on day t is stored as the reward of round t - late: with 1 as the last round that can
    have caused it (right), with 0 as that of the story shown during the visit (wrong).
    """
    readers, shares = Readers(seed=1), []
    with Client(url) as client:
        # Days pass within a second here, so decisions wait for fits. A live loop does not.
        session = client.create_session(
            name,
            dim=len(FEATURES),
            horizon=HORIZON,
            algorithm=algorithm,
            refit="blocking",
            seed=1,
            reward_unit="visits",
        )
        for day in range(1, DAYS + 1):
            come = readers.come(day)
            shares.append(float(come.mean()))
            for reader in range(READERS):
                key = f"reader-{reader}"
                if come[reader]:
                    stories = readers.stories()
                    decision = session.decide(stories, trajectory=key)
                    readers.read(reader, day, stories[decision.arm])
                else:  # the day is a round all the same
                    session.skip(trajectory=key)
            if day > late:
                session.rewards(
                    {"round": day - late, "value": float(visit), "trajectory": f"reader-{reader}"}
                    for reader, visit in enumerate(come)
                )
        return shares, session.estimate()


def main(url: str, out: Path) -> None:
    """Play the site with the default agent and with chance, and draw what was learned."""
    shares, estimate = play(url, "news", "anytime")
    mislabelled, _ = play(url, "news mislabelled", "anytime", late=0)
    by_chance, _ = play(url, "news by chance", "uniform")
    print(f"readers a day, last ten days: {np.mean(shares[-10:]):.0%}")
    print(f"the same where visits are today's reward: {np.mean(mislabelled[-10:]):.0%}")
    print(f"the same where chance chooses: {np.mean(by_chance[-10:]):.0%}")
    say(FEATURES, estimate)
    draw(
        out / "news.png",
        {"learned": shares, "visits mislabelled": mislabelled, "by chance": by_chance},
        estimate["lag_weights"],
        WEIGHTS,
        time="day",
        number="share of readers who come",
        lag="days before the visit, less one",
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080", Path("."))
