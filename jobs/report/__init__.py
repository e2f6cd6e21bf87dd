"""The report as pages: rows in, HTML out. No Spark, no clock; the same rows give the same bytes."""
