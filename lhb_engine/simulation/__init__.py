"""Simulated worlds, agents that play in them, and their regret (docs/model.md, 1 and 8).

Begin with `environment`, the world, then `play`, which lets one agent play it.
"""
