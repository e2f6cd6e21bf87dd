"""Replays of the dependency graph with the durations of any scenario."""
