"""Readers of log formats, one module each, which turn file contents into rows and rejects, without Spark."""
