"""Benchmarks of the nightly run and of the simulator; they are not tests, and nothing here asserts a time."""
