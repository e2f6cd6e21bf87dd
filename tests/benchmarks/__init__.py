"""Benchmarks: what a night and the simulator cost. Not tests: nothing here asserts a time."""
