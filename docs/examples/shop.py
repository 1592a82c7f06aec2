"""A shop: which promotions sell, when sales come in as hourly totals over a daily season.

    python docs/examples/shop.py http://127.0.0.1:8080

Whenever somebody comes, the front page shows a promotion. People buy within hours after they saw
one, and the books know only what was sold in the whole hour: by whom, and why, they do not know.
"""

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from lag_plot import draw, say

from lhb import Client

START = datetime(2026, 9, 1, tzinfo=UTC)
HOURS, VISITS_AN_HOUR, HORIZON = 400, 5, 12
FEATURES = ["discount", "new", "bundle", "seasonal"]
THETA = np.array([0.5, 0.7, -0.3, 0.4])  # hundreds of euros; the service has to find it
WEIGHTS = np.array([0.3, 0.4, 0.2, 0.1, *[0] * 8])  # by hours after the visit


class Sales:
    """A made-up shop: a base, a daily season, what promotions cause, and chance."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shown = np.zeros((HORIZON + HOURS, len(FEATURES)))  # by hour, after hours without any

    def visits(self) -> list[float]:
        """Return the minutes of an hour at which somebody comes."""
        n = self.rng.poisson(VISITS_AN_HOUR)
        return sorted(self.rng.uniform(0, 60, n).tolist())

    def promotions(self) -> np.ndarray:
        """Return the features of six promotions, (6, 4), each between -1 and 1."""
        return self.rng.uniform(-1, 1, (6, len(FEATURES)))

    def show(self, promotion: np.ndarray, hour: int) -> None:
        """Show a promotion in an hour, from 0."""
        self.shown[HORIZON + hour] += promotion

    def of_hour(self, hour: int) -> float:
        """Return what was sold in an hour, in hundreds of euros."""
        caused = WEIGHTS @ (self.shown[HORIZON + hour : hour : -1] @ THETA)
        season = 3 * np.sin(2 * np.pi * hour / 24)
        return float(10 + season + caused + 0.3 * self.rng.standard_normal())


def play(url: str, name: str, algorithm: str) -> tuple[list[float], dict]:
    """Run the shop; return the sales of each hour, and the estimate."""
    sales, totals = Sales(seed=1), []
    clock = {"slot_seconds": 3600, "start": START.isoformat()}
    with Client(url) as client:
        session = client.create_session(
            name,
            dim=len(FEATURES),
            horizon=HORIZON,
            algorithm=algorithm,
            clock=clock,
            seed=1,
            reward_unit="hundred EUR",
        )
        for hour in range(HOURS):
            begin = START + timedelta(hours=hour)
            for minute in sales.visits():
                promotions = sales.promotions()
                # a live shop leaves `at` out: it is now
                decision = session.decide(promotions, at=begin + timedelta(minutes=minute))
                sales.show(promotions[decision.arm], hour)
            totals.append(sales.of_hour(hour))
            session.reward(totals[-1], interval=(begin, begin + timedelta(hours=1)))
            while session.read()["fit_due"]:  # hours pass within milliseconds here
                time.sleep(0.01)
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
    say(FEATURES, estimate)
    draw(
        out / "shop.png",
        {"learned": by_day(totals), "by chance": by_day(by_chance)},
        estimate["lag_weights"],
        WEIGHTS * np.linalg.norm(THETA),
        time="day",
        number="sales an hour, in hundreds",
        lag="hours since the promotion was shown",
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080", Path("."))
