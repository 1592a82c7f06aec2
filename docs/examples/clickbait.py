"""A page where clickbait pays now and costs later, beside an ordinary bandit.

    python docs/examples/clickbait.py http://127.0.0.1:8080

Each hour one of five stories leads the page, and the clicks of the hour are counted. Clickbait is
clicked at once; readers who were disappointed stay away for the next five hours. A deep story is
hardly clicked, and brings readers back.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

from lhb import Client

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HOURS, HORIZON = 400, 8
FEATURES = ["depth", "clickbait"]
# what a story pays after 0, 1, 2, ... hours; the service has to find it
PAYS = np.array([[0.0, 1.0], *[[0.25, -0.3]] * 5, [0.0, 0.0], [0.0, 0.0]])


def play(url: str, name: str, algorithm: str, seed: int = 1) -> tuple[list[float], dict, dict]:
    """Run the site; return what each hour's story is worth in all, the estimate, and credit."""
    rng = np.random.default_rng(seed)
    shown = np.zeros((HOURS + HORIZON, len(FEATURES)))
    with Client(url) as client:
        # Hours pass within milliseconds here, so decisions wait for fits. A live site does not.
        session = client.create_session(
            name,
            dim=len(FEATURES),
            features=FEATURES,
            horizon=HORIZON,
            algorithm=algorithm,
            refit="blocking",
            seed=seed,
            reward_unit="clicks",
        )
        for hour in range(HORIZON, HORIZON + HOURS):
            stories = rng.uniform(-1, 1, (5, len(FEATURES)))  # beside a usual story
            decision = session.decide(
                [dict(zip(FEATURES, story, strict=True)) for story in stories]
            )
            shown[hour] = stories[decision.arm]
            last = shown[hour : hour - HORIZON : -1]
            session.reward(float((PAYS * last).sum() + rng.normal(0, 0.3)), round=decision.round)
        worths = (shown[HORIZON:] @ PAYS.sum(axis=0)).tolist()
        return worths, session.estimate(), session.credit_by_feature()


def draw(path: Path, earned: dict[str, list[float]], profiles: np.ndarray) -> None:
    """Draw the mean worth so far, and what each feature pays beside the truth."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for name, worths in earned.items():
        left.plot(np.cumsum(worths) / np.arange(1, len(worths) + 1), label=name)
    left.set(xlabel="hour", ylabel="mean worth of a story so far")
    left.legend(frameon=False)
    for i, name in enumerate(FEATURES):
        right.plot(profiles[:, i], color=f"C{i}", label=f"{name}, learned")
        right.plot(PAYS[:, i], "o", color=f"C{i}", markersize=4, label="true")
    right.set(xlabel="hours since the story", ylabel="clicks")
    right.legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(url: str, out: Path) -> None:
    """Play both, say what each has earned and learned, and draw it."""
    ordinary, *_ = play(url, "clickbait, ordinary bandit", "lin_ucb")
    worths, estimate, credit = play(url, "clickbait", "anytime")
    print(f"an hour's story is worth {np.mean(worths):+.2f}, chance 0")
    print(f"that of an ordinary bandit {np.mean(ordinary):+.2f}")
    print("lag profiles decide as:", estimate["form"])
    # rank one: what a feature pays is its theta times the common lag weights
    shared = np.outer(estimate["lag_weights"], estimate["theta"])
    profiles = np.array(estimate["lag_profiles"] or shared)
    for name, pays in zip(FEATURES, np.round(profiles.T, 2).tolist(), strict=True):
        print(f"{name} after 0, 1, 2, ... hours:", pays)
    for item in credit["items"]:
        paid = f"{item['at_once']:+.0f} at once, {item['later']:+.0f} later"
        print(f"{item['name']} of all stories shown paid {paid}")
    for finding in estimate["findings"]:
        print(f"{finding['code']}: {finding['message']}")
    draw(out / "clickbait.png", {"anytime": worths, "ordinary bandit": ordinary}, profiles)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080", Path("."))
