"""The machine of test_stateful over HTTP: the same model, through every layer that clients meet."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.examples import examples
from tests.service.http_harness import HttpHarness
from tests.service.service_harness import CONTEXTS
from tests.service.test_stateful import NAMES, VALUES, Machine

ITEMS = st.tuples(NAMES, st.none() | st.integers(1, 12), VALUES)  # without a round: a decision


class HttpMachine(Machine):
    """And batches, whose items are answered as they would have been alone, one after another."""

    harness: HttpHarness
    harness_type = HttpHarness

    @rule(items=st.lists(ITEMS, min_size=1, max_size=12))
    def batch(self, items: list[tuple[str, int | None, float]]) -> None:
        asked = []
        for name, round, value in items:
            item: dict[str, object] = {"contexts": CONTEXTS.tolist(), "trajectory": name}
            kind = "decision"
            if round is not None:
                kind, item = "reward", {"value": value, "trajectory": name, "round": round}
            asked.append({"session_id": self.harness.key[1], kind: item})
        answers = self.harness.ask("POST", "/v1/batch", {"items": asked})["items"]
        for (name, round, value), answer in zip(items, answers, strict=True):
            if round is None:
                assert answer["status"] == 201
                assert answer["decision"]["round"] == self.model.decide(name)
                continue
            if answer["status"] == 200:
                said = "accepted" if answer["reward"]["accepted"] else "repeated"
            else:
                said = answer["problem"]["code"]
            assert said == self.model.reward(name, round, round, value)

    @invariant()
    def what_is_read_agrees(self) -> None:
        session = self.harness.ask("GET", self.harness.path)
        assert (session["n_rounds"], session["model_version"], session["fit_due"]) == (
            self.model.n_rounds,
            self.model.model_version,
            self.model.current is not None,
        )
        for name, positions in self.model.rounds.items():
            page = self.harness.ask(
                "GET", f"{self.harness.path}/rounds", trajectory=name, limit="1000"
            )
            assert [one["round"] for one in page["items"]] == list(range(1, len(positions) + 1))


TestServiceOverHttp = HttpMachine.TestCase
TestServiceOverHttp.settings = settings(
    max_examples=examples(8),
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
