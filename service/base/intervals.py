"""How often a running server looks for what others have changed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between two looks of one kind."""

    keys: float = 1.0  # until every server on a shared database knows of a new or revoked key
    use_of_keys: float = 60.0  # between two writes of when keys were last used
    full_tenants: float = 30.0  # at least, between two looks how much tenants have stored
    lift: float = 5.0  # between two looks for comparisons with something new
    changes: float = 1.0  # between two looks of a stream for changes of its session
    stream: float = 25.0  # of one stream; below the time that a server takes to stop
