"""A fixed catalogue: which of six lessons keeps people, when the arms never change.

    python docs/examples/catalogue.py http://127.0.0.1:8080

Arms without features get one feature each: arm i is the i-th row of the identity matrix. Theta is
then one number an arm, learned from totals in which several days' lessons are mixed.
"""

import sys
from pathlib import Path

import numpy as np
from lag_plot import draw, say

from lhb import Client

ROUNDS, HORIZON = 1000, 8
LESSONS = ["letters", "numbers", "songs", "stories", "drawing", "games"]
WORTH = np.array([0.1, 0.3, -0.2, 0.7, 0.0, 0.4])  # the service has to find it
WEIGHTS = np.array([0, 0.4, 0.3, 0.2, 0.1, 0, 0, 0])  # today, tomorrow, ...


def play(url: str, name: str, algorithm: str) -> tuple[list[float], dict]:
    """Play one lesson a round; return the reward of each round, and the estimate."""
    rng, arms = np.random.default_rng(1), np.eye(len(LESSONS))
    worths, rewards = np.zeros(ROUNDS + HORIZON + 1), []
    with Client(url) as client:
        # Rounds pass within milliseconds here, so decisions wait for fits. A live loop does not.
        session = client.create_session(
            name,
            dim=len(LESSONS),
            horizon=HORIZON,
            algorithm=algorithm,
            refit="blocking",
            seed=1,
            reward_unit="points",
        )
        for t in range(1, ROUNDS + 1):
            decision = session.decide(arms, arm_ids=LESSONS)
            worths[t + HORIZON] = WORTH[decision.arm]
            reward = 1 + WEIGHTS @ worths[t + HORIZON : t : -1] + 0.2 * rng.standard_normal()
            session.reward(float(reward), round=t)
            rewards.append(float(reward))
        return rewards, session.estimate()


def main(url: str, out: Path) -> None:
    """Play with the default agent and with chance, and draw what was learned."""
    rewards, estimate = play(url, "catalogue", "anytime")
    by_chance, _ = play(url, "catalogue by chance", "uniform")
    print(f"reward, last hundred rounds: {np.mean(rewards[-100:]):.2f}")
    print(f"the same where chance chooses: {np.mean(by_chance[-100:]):.2f}")
    say(LESSONS, estimate)
    means = {
        name: [float(np.mean(values[i : i + 50])) for i in range(0, ROUNDS, 50)]
        for name, values in (("learned", rewards), ("by chance", by_chance))
    }
    draw(
        out / "catalogue.png",
        means,
        estimate["lag_weights"],
        WEIGHTS * np.linalg.norm(WORTH),
        time="fifty rounds",
        number="mean reward",
        lag="days since the lesson",
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080", Path("."))
