"""The dependency graph of one step, from the programs of all stages."""
