"""Simulate one unit: from its rank_steps rows to the rows of the result tables."""
