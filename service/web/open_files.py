"""The limit of open files, which limits connections."""

import resource

RESERVED_FILES = 100  # file descriptors kept free for everything but connections
MAX_FILES = 65_536


def most_connections(wanted: int) -> int:
    """Return how many connections may be open at once: `wanted`, or what the system allows.

    The soft limit of open files is raised as far as the system allows; if it stays lower, fewer
    connections are allowed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
        soft = files
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - RESERVED_FILES))
