"""What all experiments share: rules and verdicts, sweeps, tables, figures and the report.

Begin with `experiment.py`; `claims.py` has the rules and how a verdict follows from them.
"""
