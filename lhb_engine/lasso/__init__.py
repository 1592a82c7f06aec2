"""The block-sparse Lasso on a lagged design: solvers, choice of lam, and theta from phi.

Begin with `group_lasso`, the solver with its certificate, then `fit`, which makes an estimate.
"""
