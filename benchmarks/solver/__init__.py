"""Benchmarks of the group-lasso solver against other packages. Begin with `against_peers.py`."""
