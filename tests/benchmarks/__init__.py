"""Benchmarks: the cost of a night and of the simulator. They are not tests: nothing here asserts a time."""
