"""The use cases, each a command over a unit of work: what a request changes.

Begin with `decisions`, then `rewards`.
"""
