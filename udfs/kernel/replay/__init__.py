"""Replays of the graph under any scenario."""
