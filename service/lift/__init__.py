"""What an agent adds beside a control group, and how it agrees with a caller, in running sums.

Begin with `sums`; `steps` reads what came since, `watch` does so in the background.
"""
