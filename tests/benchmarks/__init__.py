"""Benchmarks: the cost of a night and of the simulator. Not tests: nothing here asserts a time."""
