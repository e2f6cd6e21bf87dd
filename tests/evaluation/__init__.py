"""Evaluations of the diagnosis and of clock correction on generated jobs and faults with known truth."""
