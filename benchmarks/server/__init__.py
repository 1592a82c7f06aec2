"""Benchmarks of the server. `serving.py` puts most of them together; begin there."""
