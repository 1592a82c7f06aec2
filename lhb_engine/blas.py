"""BLAS in one thread: more of them make small products slower and estimates another machine's."""

from threadpoolctl import threadpool_limits


def one_thread() -> threadpool_limits:
    """One thread for BLAS from now on, or as long as this is used as a context manager.

    A limit reaches only libraries that are loaded; agents load scipy, whose BLAS is its own, when
    they fit for the first time. So it is loaded here.
    """
    import scipy.linalg  # noqa: F401

    return threadpool_limits(1, "blas")
