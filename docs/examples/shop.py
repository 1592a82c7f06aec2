"""A shop: which promotions sell, when sales come in as hourly totals over a daily season.

    python docs/examples/shop.py http://127.0.0.1:8080

The front page shows another promotion every ten minutes: that is a round. People buy minutes to
hours after they saw one, and the books know only what was sold in the whole hour.
"""

import sys
from pathlib import Path

import numpy as np
from lag_plot import draw

from lhb import Client

SLOTS_AN_HOUR, HOURS, HORIZON = 6, 500, 18  # three hours of lags
FEATURES = ["discount", "new", "bundle", "seasonal"]
THETA = np.array([0.5, 0.7, -0.3, 0.4])  # hundreds of euros; the service has to find it
WEIGHTS = np.array([0, 0.1, 0.3, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, *[0] * 9])  # ten minutes each


class Sales:
    """A made-up shop: a base, a daily season, what promotions cause, and chance."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shown = np.zeros((HORIZON + HOURS * SLOTS_AN_HOUR + 1, len(FEATURES)))

    def promotions(self) -> np.ndarray:
        """Return the features of six promotions, (6, 4), each between -1 and 1."""
        return self.rng.uniform(-1, 1, (6, len(FEATURES)))

    def of_hour(self, hour: int) -> float:
        """Return what was sold in an hour, in hundreds of euros."""
        last = hour * SLOTS_AN_HOUR
        slots = range(last - SLOTS_AN_HOUR + 1, last + 1)
        caused = sum(float(WEIGHTS @ (self.shown[t + HORIZON : t : -1] @ THETA)) for t in slots)
        season = 3 * np.sin(2 * np.pi * hour / 24)
        return 10 + season + caused + 0.3 * self.rng.standard_normal()


def play(url: str, name: str, algorithm: str) -> tuple[list[float], dict]:
    """Run the shop; return the sales of each hour, and the estimate."""
    sales, totals = Sales(seed=1), []
    with Client(url) as client:
        # Hours pass within milliseconds here, so decisions wait for fits. A live loop does not.
        session = client.create_session(
            name, dim=len(FEATURES), horizon=HORIZON, algorithm=algorithm, refit="blocking", seed=1
        )
        for hour in range(1, HOURS + 1):
            for _ in range(SLOTS_AN_HOUR):
                promotions = sales.promotions()
                decision = session.decide(promotions)
                sales.shown[decision.round + HORIZON] = promotions[decision.arm]
            totals.append(sales.of_hour(hour))
            first = (hour - 1) * SLOTS_AN_HOUR + 1
            session.reward(totals[-1], first_round=first, last_round=hour * SLOTS_AN_HOUR)
        return totals, session.estimate()


def by_day(totals: list[float]) -> list[float]:
    """Return the mean hour of each day."""
    return [float(np.mean(totals[i : i + 24])) for i in range(0, len(totals) - 23, 24)]


def main(url: str, out: Path) -> None:
    """Play the shop with the default agent and with chance, and draw what was learned."""
    totals, estimate = play(url, "shop", "anytime")
    by_chance, _ = play(url, "shop by chance", "uniform")
    print(f"sales an hour, last five days: {np.mean(totals[-120:]):.2f}")
    print(f"the same where chance chooses: {np.mean(by_chance[-120:]):.2f}")
    for feature, value in zip(FEATURES, estimate["theta"], strict=True):
        print(f"{feature:>10} {value:+.2f}")
    draw(
        out / "shop.png",
        {"learned": by_day(totals), "by chance": by_day(by_chance)},
        estimate["lag_weights"],
        WEIGHTS * np.linalg.norm(THETA),
        time="day",
        number="sales an hour, in hundreds",
        lag="tens of minutes since the promotion was shown",
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080", Path("."))
