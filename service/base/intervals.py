"""How often a running server looks for what others have changed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between two looks of one kind.

    Attributes
    ----------
    keys : float
        Until every server on a shared database knows of a new or revoked key.
    use_of_keys : float
        Between two writes of when keys were last used.
    full_tenants : float
        At least, between two looks how much tenants have stored.
    lift : float
        Between two looks for comparisons with something new.
    changes : float
        Between two looks of a stream for changes of its session.
    stream : float
        Of one stream; below the time that a server takes to stop.
    """

    keys: float = 1.0
    use_of_keys: float = 60.0
    full_tenants: float = 30.0
    lift: float = 5.0
    changes: float = 1.0
    stream: float = 25.0
