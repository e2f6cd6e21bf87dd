"""The report as pages: rows in, HTML out. No Spark, no clock; same rows, same bytes."""
