"""Off-policy evaluation, what a log says of an agent that did not make it; credit; and lift.

Begin with `log_replay`; `off_policy` estimates what the agent would have earned. `lift` compares an
agent with a control group.
"""
