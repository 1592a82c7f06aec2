"""Checks of the model on the latest rows, each with a sentence that a person acts on.

Begin with `all_checks.py`; equations are in docs/model.md 12.
"""
