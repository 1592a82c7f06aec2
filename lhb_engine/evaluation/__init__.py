"""Off-policy evaluation: what a log says of an agent that did not make it.

Begin with `log_replay`; `importance_weights` estimates what the agent would have earned.
"""
