"""Simulated jobs whose workers wait for their transfers, or do not; and the replay's results for them."""
