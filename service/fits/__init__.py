"""The schedule of fits, the processes that run them, and the installation of their estimates.

Begin reading with `schedule`, which decides when a fit is due; `job` is the fit itself.
"""
