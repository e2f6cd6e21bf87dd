"""Mechanisms: faults and nuisances planted in generated jobs."""
