"""Notifications: which ones bring people into the app, and when is it better to send none.

    python docs/examples/notifications.py http://127.0.0.1:8080

Each day each person gets one of three notifications or none. The number is the day's sessions in
the app, whatever caused them. A pushy notification wins a session today and costs some later.
"""

import sys
from pathlib import Path

import numpy as np
from lag_plot import draw, say

from lhb import Client

PEOPLE, DAYS, HORIZON = 50, 60, 10
HABIT = 5  # sessions a day of a person who is sent nothing
FEATURES = ["sent", "personal", "useful", "urgent"]
THETA = np.array([-0.5, 0.6, 0.9, -0.2])  # in shares of the habit; the service has to find it
WEIGHTS = np.array([0.4, 0.2, 0.15, 0.1, 0.08, 0.07, 0, 0, 0, 0])  # today, tomorrow, ...
NONE = np.zeros((1, len(FEATURES)))  # an arm of zeros: sending nothing


class People:
    """Made-up people: sessions by habit, by what was sent in the last days, and by chance."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.sent = np.zeros((PEOPLE, HORIZON + DAYS + 1, len(FEATURES)))

    def notifications(self) -> np.ndarray:
        """Return the arms of a day: none, and three notifications, (4, 4)."""
        made = np.c_[np.ones(3), self.rng.uniform(0, 1, (3, 3))]
        return np.r_[NONE, made]

    def away(self) -> bool:
        """Return whether nothing can be sent today."""
        return bool(self.rng.random() < 0.1)

    def sessions(self, person: int, day: int) -> float:
        """Return a person's sessions in the app on a day."""
        past = self.sent[person, day + HORIZON : day : -1]  # today, yesterday, ...
        caused = float(WEIGHTS @ (past @ THETA))
        return float(self.rng.poisson(HABIT * max(1 + caused, 0)))


def play(url: str, name: str, algorithm: str) -> tuple[list[float], dict]:
    """Run the app for `DAYS` days; return the mean sessions a day, and the estimate."""
    people, means = People(seed=1), []
    with Client(url) as client:
        # Days pass within a second here, so decisions wait for fits. A live loop does not.
        session = client.create_session(
            name,
            dim=len(FEATURES),
            horizon=HORIZON,
            algorithm=algorithm,
            refit="blocking",
            seed=1,
            reward_unit="app sessions",
        )
        for day in range(1, DAYS + 1):
            for person in range(PEOPLE):
                key = f"person-{person}"
                if people.away():
                    session.skip(trajectory=key)
                    continue
                arms = people.notifications()
                decision = session.decide(arms, trajectory=key)
                people.sent[person, day + HORIZON] = arms[decision.arm]
            counts = [people.sessions(person, day) for person in range(PEOPLE)]
            means.append(float(np.mean(counts)))
            session.rewards(
                {"round": day, "value": count, "trajectory": f"person-{person}"}
                for person, count in enumerate(counts)
            )
        return means, session.estimate()


def main(url: str, out: Path) -> None:
    """Play the app with the default agent and with chance, and draw what was learned."""
    means, estimate = play(url, "notifications", "anytime")
    by_chance, _ = play(url, "notifications by chance", "uniform")
    print(f"sessions a day, last ten days: {np.mean(means[-10:]):.2f}")
    print(f"the same where chance chooses: {np.mean(by_chance[-10:]):.2f}")
    say(FEATURES, estimate)
    draw(
        out / "notifications.png",
        {"learned": means, "by chance": by_chance},
        estimate["lag_weights"],
        HABIT * WEIGHTS * np.linalg.norm(THETA),
        time="day",
        number="sessions a person",
        lag="days since it was sent",
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080", Path("."))
