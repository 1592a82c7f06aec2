"""A user's program, for `mypy --strict` beside the installed wheel: every answer has its type.

`test_wheel.py` checks it outside this repository; it is not run.
"""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import assert_type

from lhb import ApiError, AsyncClient, AsyncSession, Client, Decision, Session

CONTEXTS = [[0.3, -0.1], [0.2, 0.9]]


def blocking() -> None:
    with Client("http://127.0.0.1:8080", api_key="key", buffer="rewards.db") as client:
        session = client.create_session("shop", dim=2, horizon=4, reward_mode="sum", seed=1)
        assert_type(session, Session)
        assert_type(client.get_or_create("shop", dim=2, horizon=4), Session)
        assert_type(client.session_handle("shop"), Session)
        assert_type(client.sessions(archived=True), Iterator[Session])
        decision = session.decide(CONTEXTS, rewards=[{"round": 1, "value": 0.5}], arm_ids=["a"])
        assert_type(decision, Decision)
        assert_type(decision.arm_id, str | None)
        received = session.reward(1.0, round=decision.round, at=datetime.now(UTC))
        assert_type(received["kept"], int)
        assert_type(session.info["n_rounds"], int)
        assert_type(session.skip()["arm"], int | None)
        assert_type(session.rank(CONTEXTS)["ranking"], list[int])
        assert_type(session.history(CONTEXTS, [0.1, None])["last_round"], int)
        estimate = session.estimate()
        if estimate["status"] == "none":
            print(estimate["deciding"])
        else:
            assert_type(estimate.get("theta"), list[float] | None)
        for fit in session.estimates(limit=10):
            assert_type(fit["window"]["first"], int)
        for one in session.rounds(trajectory="ann"):
            assert_type(one["reward"], float | None)
            assert_type(one["spans"][0]["value"], float)
        for credit in session.credit():
            assert_type(credit["to_come"], float | None)
        for feature in session.credit_by_feature(rounds=100)["items"]:
            assert_type(feature["later"], float)
        for epoch in session.epochs():
            assert_type(epoch["epoch"], int)
        for algorithm in client.algorithms():
            assert_type(algorithm["name"], str)
        for item in client.batch([{"session_id": "shop", "decision": {"contexts": CONTEXTS}}]):
            if "decision" in item:
                assert_type(item["decision"]["scores"], list[float])
        try:
            assert_type(session.delete(), None)
        except ApiError as error:
            assert_type(error.field, str | None)
            print(error.code == "unknown_session")


async def awaiting() -> None:
    async with AsyncClient() as client:
        session = await client.create_session(dim=2, horizon=4)
        assert_type(session, AsyncSession)
        assert_type(await session.decide(CONTEXTS), Decision)
        assert_type(client.sessions(), AsyncIterator[AsyncSession])
        async for one in session.rounds():
            assert_type(one["arm"], int | None)
        assert_type(await client.flush(), int)
