"""Formats of logs, a module each: what a file holds in, rows and rejects out. No Spark, no stores."""
