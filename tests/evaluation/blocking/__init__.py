"""Simulated jobs whose transfers do or do not block their workers, and the replay's results for them."""
