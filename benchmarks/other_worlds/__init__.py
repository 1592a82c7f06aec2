"""Worlds that nobody here wrote, and what their authors or others reach in them.

Each file is an adapter to one package. None is installed with this one: docs/results/worlds.md
says how. A world whose package is absent is left out of the table, and the table says so.
"""
