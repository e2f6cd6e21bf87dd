"""Replays of the dependency graph under any scenario."""
