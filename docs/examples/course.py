"""A course: which exercises make learners better, when only a monthly score tells.

    python docs/examples/course.py http://127.0.0.1:8080

Every week each learner gets one exercise. A test every fourth week measures a level that many weeks
have built. Learners start from levels of their own, and teachers sometimes choose themselves.
"""

import sys
from pathlib import Path

import numpy as np
from lag_plot import draw, say

from lhb import Client

LEARNERS, WEEKS, HORIZON = 60, 48, 16
FEATURES = ["practice", "feedback", "video", "quiz"]
THETA = np.array([0.8, 0.5, -0.2, 0.3])  # points a unit; the service has to find it
WEIGHTS = 0.25 * 0.75 ** np.arange(HORIZON)  # what is learned is slowly forgotten
TEACHER = 0.1  # share of the weeks in which a teacher chooses


class Learners:
    """Made-up learners: a level of their own, what exercises build, and a test's chance."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.level = self.rng.normal(50, 5, LEARNERS)
        self.done = np.zeros((LEARNERS, HORIZON + WEEKS + 1, len(FEATURES)))

    def exercises(self) -> np.ndarray:
        """Return the features of six exercises, (6, 4), each between -1 and 1."""
        return self.rng.uniform(-1, 1, (6, len(FEATURES)))

    def score(self, learner: int, week: int) -> float:
        """Return the score of the test at the end of a week (0: before the course)."""
        past = self.done[learner, week + HORIZON : week : -1]  # this week, the one before, ...
        built = float(WEIGHTS @ (past @ THETA))
        return self.level[learner] + built + 0.3 * self.rng.standard_normal()


def play(url: str, name: str, algorithm: str) -> tuple[list[float], dict]:
    """Run the course; return the mean gain at each test, and the estimate."""
    learners, gains = Learners(seed=1), []
    rng = np.random.default_rng(2)
    entry = [learners.score(learner, 0) for learner in range(LEARNERS)]
    with Client(url) as client:
        # Weeks pass within a second here, so decisions wait for fits. A live loop does not.
        session = client.create_session(
            name,
            dim=len(FEATURES),
            horizon=HORIZON,
            algorithm=algorithm,
            refit="blocking",
            seed=1,
            reward_unit="points",
        )
        for week in range(1, WEEKS + 1):
            for learner in range(LEARNERS):
                exercises = learners.exercises()
                # a teacher's own choice is told too: it teaches the model as much as any other
                choice = int(rng.integers(6)) if rng.random() < TEACHER else None
                decision = session.decide(
                    exercises, trajectory=f"learner-{learner}", forced_arm=choice
                )
                learners.done[learner, week + HORIZON] = exercises[decision.arm]
            if week % 4 == 0:
                # a score is a reading at one time, not a total: it belongs to the week of the test;
                # the entry score takes out most of each learner's own level
                month = [learners.score(i, week) - entry[i] for i in range(LEARNERS)]
                gains.append(float(np.mean(month)))
                session.rewards(
                    {"round": week, "value": gain, "trajectory": f"learner-{i}"}
                    for i, gain in enumerate(month)
                )
        return gains, session.estimate()


def main(url: str, out: Path) -> None:
    """Play the course with the default agent and with chance, and draw what was learned."""
    gains, estimate = play(url, "course", "anytime")
    by_chance, _ = play(url, "course by chance", "uniform")
    print(f"points above entry, last test: {gains[-1]:.2f}")
    print(f"the same where chance chooses: {by_chance[-1]:.2f}")
    say(FEATURES, estimate)
    draw(
        out / "course.png",
        {"learned": gains, "by chance": by_chance},
        estimate["lag_weights"],
        WEIGHTS * np.linalg.norm(THETA),
        time="test",
        number="points above entry",
        lag="weeks since the exercise",
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080", Path("."))
