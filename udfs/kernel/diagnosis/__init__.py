"""Causes as counterfactuals: what a job would take without each of them."""
