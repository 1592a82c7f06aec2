"""The shared parts of all experiments: rules, verdicts, sweeps, tables, figures, the report.

Begin with `experiment.py`, then `claims.py`, which has the rules and the verdicts.
"""
