"""The what-if kernel: dense arrays in, dense arrays out; numpy and the standard library only.

Every array of ops has the axes (op, scenario, step, dp_rank), leaving out those it does not need.
"""
