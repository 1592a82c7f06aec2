"""scikit-learn estimators of lagged effects: a fixed lam, and one chosen by cross-validation."""

from lhb_engine.scikit_learn.lagged_group_lasso import LaggedGroupLasso, LaggedGroupLassoCV

__all__ = ["LaggedGroupLasso", "LaggedGroupLassoCV"]
