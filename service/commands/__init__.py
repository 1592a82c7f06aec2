"""The use cases: each is a command that runs in a unit of work and changes what a request asks.

Begin reading with `decisions`, then `rewards`.
"""
