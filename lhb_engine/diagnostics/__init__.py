"""Checks of the model on the latest rows, each with a sentence that a person acts on.

Begin with `findings`; equations are in docs/model.md 12.
"""
