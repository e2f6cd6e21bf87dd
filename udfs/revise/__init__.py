"""Causes revised by what other runs and other jobs say; plain Python over a few numbers of each unit."""
