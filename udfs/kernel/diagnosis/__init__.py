"""Causes of slowdown as counterfactuals: how long a job's steps would take without each of them."""
