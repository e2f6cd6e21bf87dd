"""Recorded rows as dense arrays, and durations derived from them."""
