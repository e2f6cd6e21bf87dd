"""Recorded rows as dense arrays, and the durations in them."""
