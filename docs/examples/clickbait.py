"""A news site where clickbait pays now and costs later, beside an ordinary bandit.

    python docs/examples/clickbait.py http://127.0.0.1:8080

Each hour one of five stories leads the page, and the clicks of the hour are counted. Clickbait is
clicked at once; readers who were disappointed stay away for the next five hours. A deep story is
hardly clicked, and brings readers back.
"""

import sys

import numpy as np

from lhb import Client

HOURS, HORIZON = 400, 8
FEATURES = ["depth", "clickbait"]
# what a story pays after 0, 1, 2, ... hours; the service has to find it
PAYS = np.array([[0.0, 1.0], *[[0.25, -0.3]] * 5])


def play(url: str, algorithm: str, seed: int = 1) -> tuple[float, dict]:
    """Run the site; return what the chosen stories are worth an hour, and the estimate."""
    rng = np.random.default_rng(seed)
    shown = np.zeros((HOURS + len(PAYS), len(FEATURES)))
    with Client(url) as client:
        # Hours pass within milliseconds here, so decisions wait for fits. A live site does not.
        session = client.create_session(
            f"clickbait, {algorithm}",
            dim=len(FEATURES),
            horizon=HORIZON,
            algorithm=algorithm,
            refit="blocking",
            seed=seed,
        )
        for hour in range(HOURS):
            stories = rng.uniform(-1, 1, (5, len(FEATURES)))  # beside a usual story
            decision = session.decide(stories.tolist())
            shown[hour + len(PAYS)] = stories[decision.arm]
            last = shown[hour + len(PAYS) : hour : -1]
            session.reward(float((PAYS * last).sum() + rng.normal(0, 0.3)), round=decision.round)
        worth = float((shown[len(PAYS) :] @ PAYS.sum(axis=0)).mean())
        return worth, session.estimate()


def main(url: str) -> None:
    """Play both, and say what each has earned and learned."""
    ordinary, _ = play(url, "lin_ucb")
    worth, estimate = play(url, "anytime")
    print(f"an hour's story is worth {worth:+.2f}; an ordinary bandit's {ordinary:+.2f}; chance 0")
    print("theta:", dict(zip(FEATURES, np.round(estimate["theta"], 2).tolist(), strict=True)))
    print("lag profiles decide as:", estimate["form"])
    if estimate["lag_profiles"]:
        pays = np.round(np.array(estimate["lag_profiles"]).T, 2)
        for name, row in zip(FEATURES, pays.tolist(), strict=True):
            print(f"{name} after 0, 1, 2, ... hours:", row)
    for finding in estimate["findings"]:
        print(f"{finding['code']}: {finding['message']}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080")
