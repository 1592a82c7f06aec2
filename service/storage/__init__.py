"""The storage port and its SQLite and PostgreSQL adapters.

Begin with `transactions`, then read one adapter's `store`.
"""
