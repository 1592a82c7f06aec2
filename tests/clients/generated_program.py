"""Plays with what openapi-python-client generates; `test_generated_python.py` runs it."""

import os

from generated import Client
from generated.api.decisions import post_batch, post_decision
from generated.api.estimates import get_estimate
from generated.api.rewards import post_rewards
from generated.api.rounds import get_rounds
from generated.api.sessions import get_sessions, post_session
from generated.models import (
    BatchBody,
    BatchDecision,
    DecisionOfContexts,
    NoEstimateAnswer,
    ProblemAnswer,
    RewardList,
    RewardOfRound,
    RewardOfSpan,
    SessionBody,
    SkippedDecision,
)

client = Client(base_url=os.environ["LHB_URL"])
made = post_session.sync(client=client, body=SessionBody(name="generated", dim=2, horizon=5))
arms = DecisionOfContexts(contexts=[[0.3, -0.1], [0.2, 0.9]])
first = post_decision.sync(session_id=made.id, client=client, body=arms)
post_decision.sync(session_id="generated", client=client, body=SkippedDecision(skip=True))
items = [BatchDecision(session_id=made.id, decision=arms)]
answer = post_batch.sync(client=client, body=BatchBody(items=items)).items[0]
post_rewards.sync(session_id=made.id, client=client, body=RewardOfRound(round_=1, value=0.5))
spans = RewardList(rewards=[RewardOfSpan(first_round=2, last_round=3, value=1.5)])
accepted = post_rewards.sync(session_id=made.id, client=client, body=spans)
assert (first.round_, answer.status, answer.decision.round_, accepted.accepted) == (1, 201, 3, 1)
page = get_rounds.sync(session_id=made.id, client=client)
assert [one.reward for one in page.items] == [0.5, None, None]
assert page.items[1].spans[0].value == 1.5
estimate = get_estimate.sync(session_id=made.id, client=client)
assert isinstance(estimate, NoEstimateAnswer)
assert estimate.status == "none"
assert [one.id for one in get_sessions.sync(client=client, name="generated").items] == [made.id]
wrong = RewardOfRound(round_=9, value=0.5)
refused = post_rewards.sync_detailed(session_id=made.id, client=client, body=wrong)
assert refused.status_code == 422
assert isinstance(refused.parsed, ProblemAnswer)
assert refused.parsed.code == "future_round"
print("played")
