"""From contexts and measurements to the rows of a regression on lagged contexts.

Begin with `lagged_design`: the design as a linear operator. `fit_rows` makes one of a history.
"""
