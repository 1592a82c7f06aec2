"""Uniform play, the baseline that every agent has to beat."""

from lhb_engine.agents.base import Agent


class Uniform(Agent):
    """Chooses uniformly at random in every round."""

    name = "uniform"
    summary = "Chooses uniformly at random; learns nothing."
