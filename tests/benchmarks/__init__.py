"""Benchmarks of nights, of months of history and of the simulator: they print times, and assert none."""
