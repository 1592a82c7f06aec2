"""The posterior of the rank-one model (docs/model.md 7), sampled by a Gibbs sampler.

Begin with `rank_one_posterior.py`, then `gibbs_sampler.py`.
"""
