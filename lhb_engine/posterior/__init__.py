"""The posterior of the rank-one model: begin with rank_one_posterior.py, then gibbs_chains.py."""
