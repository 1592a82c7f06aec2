"""The storage port and its SQLite and PostgreSQL adapters.

Begin with `ports`, then read one adapter's `store`.
"""
