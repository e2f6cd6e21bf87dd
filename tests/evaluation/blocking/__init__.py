"""Replay simulated jobs whose transfers do or do not block their workers, and judge the results."""
