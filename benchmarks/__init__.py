"""Benchmarks behind `lhb bench`: the solver, the server, and the scoreboard of regrets."""
