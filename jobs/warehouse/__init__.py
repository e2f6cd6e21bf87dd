"""The tables on Delta: reading, replacing, appending, upkeep; by Spark, and small tables without it."""
