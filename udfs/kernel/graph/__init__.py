"""Dependency graph of one step, built from the programs of all stages."""
