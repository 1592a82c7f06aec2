"""Parsing of a history's body; a process of its own does it where the body is large."""

from typing import Any

from service.api.body_parsing import HISTORY
from service.api.context_arrays import read_contexts
from service.base.loop_slices import run_at_once
from service.base.problems import Problem, ProblemCode
from service.commands.decisions import body_digest
from service.session.records import SERVER_EVENT

MAX_ROUNDS = 10_000  # rounds in one call


def read_history(body: bytes) -> dict[str, Any]:
    """Parse and check the body of a history; return the members of a `Log`."""
    asked = HISTORY.read(body)
    contexts = run_at_once(read_contexts(asked["contexts"]))
    n = len(contexts)
    if n > MAX_ROUNDS:
        raise Problem(
            ProblemCode.OUT_OF_RANGE, f"a call takes at most {MAX_ROUNDS} rounds", "contexts"
        )
    rewards = asked.get("rewards", [None] * n)
    if len(rewards) != n:
        raise Problem(ProblemCode.WRONG_SHAPE, f"{len(rewards)} rewards for {n} rounds", "rewards")
    rewards = [None if value is None else value + 0.0 for value in rewards]
    told = asked.get("covariates") or {}
    for name, values in told.items():
        if len(values) != n:
            detail = f"{len(values)} numbers for {n} rounds"
            raise Problem(ProblemCode.WRONG_SHAPE, detail, f"covariates.{name}")
    import_id = asked.get("import_id")
    if import_id is not None and import_id.startswith(SERVER_EVENT):
        detail = f"ids that begin with {SERVER_EVENT} are reserved for the server"
        raise Problem(ProblemCode.INVALID, detail, "import_id")
    # a body without covariates keeps the digest that it had before there were any
    said = (rewards, sorted(told.items())) if told else (rewards,)
    return {
        "trajectory": asked.get("trajectory") or "",
        "contexts": contexts,
        "rewards": rewards,
        "import_id": import_id,
        "covariates": told,
        "digest": None if import_id is None else body_digest(contexts, *said),
    }
