"""When a fit is due, the processes that run it, and how its estimate is installed.

Begin with `schedule`, which says when; `job` is the fit itself.
"""
