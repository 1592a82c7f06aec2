"""Limit BLAS to one thread: more slow down small products and change their rounding."""

from threadpoolctl import threadpool_limits


def one_thread() -> threadpool_limits:
    """Limit BLAS to one thread, from now on or within a `with` block.

    The limit reaches only libraries that are loaded. scipy brings a BLAS of its own and is
    otherwise first imported by a fit, so it is imported here.
    """
    import scipy.linalg  # noqa: F401

    return threadpool_limits(1, "blas")
