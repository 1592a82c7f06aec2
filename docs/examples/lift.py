"""A shop that sees what its agent adds, breaks its pages, and is kept from harm by the guard.

    python docs/examples/lift.py http://127.0.0.1:8080

Customers come once a day, and each sees one of four offers. Four in ten see the offer that the
shop has always shown first: they are control. One day a release of the shop makes pages with the
agent's offers slow, and whoever sees one spends less, whatever the agent learns. The shop arms the
guard with every release, and the guard sees it.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from lhb import Client

CUSTOMERS, DAYS, BROKEN, SLOW = 150, 15, 10, 1.2
THETA = np.array([0.8, -0.5, 0.3])  # what makes an offer good; the service has to find it
WEIGHTS = np.array([0.2, 0.5, 0.3])  # a good offer pays on the day, on the next visit, and after
HOLDOUT = {"share": 0.4, "planned_rounds": 800}  # the guard is armed where nobody says otherwise


class Shop:
    """Made-up customers: their own level, what offers of the last three days cause, and chance."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.level = 1.0 + 0.3 * self.rng.standard_normal(CUSTOMERS)
        self.seen = np.zeros((len(WEIGHTS), CUSTOMERS))

    def offers(self) -> np.ndarray:
        """Return the features of four offers to each customer, (150, 4, 3)."""
        return self.rng.uniform(-1, 1, (CUSTOMERS, 4, len(THETA)))

    def earned(self, shown: np.ndarray, is_slow: np.ndarray) -> np.ndarray:
        """Return what each customer spends on a day, given the features of the offer shown."""
        self.seen = np.vstack([shown @ THETA - SLOW * is_slow, self.seen[:-1]])
        return self.level + WEIGHTS @ self.seen + 0.3 * self.rng.standard_normal(CUSTOMERS)


def play(url: str, name: str) -> list[dict[str, Any]]:
    """Run the shop; return for each day what the service says of lift, and who played."""
    shop, days = Shop(seed=1), []
    with Client(url) as client:
        # Days pass within milliseconds here, so decisions wait for fits. A live shop does not.
        session = client.create_session(
            name,
            dim=len(THETA),
            horizon=len(WEIGHTS),
            holdout=HOLDOUT,
            refit="blocking",
            seed=1,
            reward_unit="EUR",
        )
        for day in range(1, DAYS + 1):
            if day == BROKEN:
                session.change(guard="armed")  # with every release: a new comparison begins
            offers = shop.offers()
            asked = [
                {"contexts": offers[i], "trajectory": f"customer-{i}", "default_arm": 0}
                for i in range(CUSTOMERS)
            ]
            answers = client.batch([{"session_id": session.id, "decision": one} for one in asked])
            decisions = [answer["decision"] for answer in answers]
            arms = [decision["arm"] for decision in decisions]
            is_agents = np.array([decision["played_by"] == "agent" for decision in decisions])
            shown = offers[np.arange(CUSTOMERS), arms]
            earned = shop.earned(shown, is_agents & (day >= BROKEN))
            session.rewards(
                {"value": float(value), "round": day, "trajectory": f"customer-{i}"}
                for i, value in enumerate(earned)
            )
            by = {decision["played_by"] for decision in decisions}
            form = session.estimate().get("form")  # None before the first fit
            now = {"day": day, "by": by, "earned": float(earned.mean()), "form": form}
            days.append({**now, **session.lift()})
        return days


def draw(out: Path, days: list[dict[str, Any]]) -> None:
    """Draw lift with its interval, by day, and when the guard played."""
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for part in (range(1, BROKEN), range(BROKEN, DAYS + 1)):  # two comparisons
        known = [one for one in days if one["day"] in part and one["lift"]]
        at = [one["day"] for one in known]
        low, middle, high = (
            [one["lift"][name] for one in known] for name in ("low", "difference", "high")
        )
        axes.fill_between(at, low, high, color="tab:blue", alpha=0.25, linewidth=0)
        axes.plot(at, middle, color="tab:blue")
    guarded = [one["day"] for one in days if "guard" in one["by"]]
    if guarded:
        axes.axvspan(guarded[0] - 0.5, guarded[-1] + 0.5, color="tab:red", alpha=0.12)
        axes.text(guarded[0], axes.get_ylim()[1], "guard", va="top", color="tab:red")
    axes.axvline(BROKEN - 0.5, color="gray", linestyle=":")
    axes.axhline(0.0, color="gray", linewidth=0.8)
    axes.set(xlabel="day", ylabel="lift a visit", ylim=(-0.8, 0.9))
    figure.savefig(out)
    plt.close(figure)


def main(url: str, out: Path) -> None:
    """Play the shop, say what happened, and draw it."""
    days = play(url, "lift")
    seen = next(one for one in days if one["lift"] and one["lift"]["low"] > 0)
    print("lag profiles decide as:", seen["form"])
    print(f"day {seen['day']}: the agent adds {seen['lift']['difference']:.2f} a visit")
    tripped = next(one["day"] for one in days if "guard" in one["by"])
    print(f"day {BROKEN}: the pages break; from day {tripped} on the guard plays")
    draw(out / "lift.png", days)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080", Path("."))
