"""A port for what listens a while later, or again: connections of other tests do not take it."""

import random
import socket
from pathlib import Path

GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")  # by the kernel, where a port is 0
LEAST = 10_000


def free_port() -> int:
    """A port of 127.0.0.1 at which nobody listens, and that the kernel gives to no connection."""
    first = int(GIVEN.read_text().split()[0])
    for port in random.sample(range(LEAST, max(first, 2 * LEAST)), 1000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("a thousand ports are taken")
