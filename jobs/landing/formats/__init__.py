"""Formats of logs, a file each: what a file holds in, rows of rank_steps and rejects out. No Spark, no stores."""
