"""Uniform play: the floor that every agent has to beat."""

from lhb_engine.agents.base import Agent


class Uniform(Agent):
    """Chooses uniformly at random, for ever."""

    name = "uniform"
    summary = "Uniformly at random; learns nothing."
