"""Off-policy evaluation, what a log says of an agent that did not make it; credit; and lift.

Begin with `log_replay`; `doubly_robust` and `importance_weights` estimate what the agent would have
earned. `lift` compares an agent with a control group.
"""
