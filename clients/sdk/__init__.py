"""The Python client of the REST API, built on httpx alone. Begin with `client.py`."""
