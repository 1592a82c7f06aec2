"""From contexts and measurements to the rows of a regression on lagged contexts.

Begin with `lagged_design`: the design as a linear operator. `fit_rows` makes the rows of the lasso
from a history, `aligned_rounds` those of the posterior of `anytime`.
"""
