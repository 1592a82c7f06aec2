"""Values that a shell completes. `lhb --install-completion` sets a shell up."""


def algorithms() -> list[str]:
    """Return the names of the algorithms."""
    from lhb_engine.agents import ALGORITHMS

    return list(ALGORITHMS)


def patterns() -> list[str]:
    """Return the patterns of lag weights."""
    from lhb_engine.simulation.lag_patterns import PATTERNS

    return list(PATTERNS)


def experiments() -> list[str]:
    """Return what `lhb reproduce` takes."""
    from clients.experiments import EXPERIMENTS

    return ["all", "plot", "report", *EXPERIMENTS]
