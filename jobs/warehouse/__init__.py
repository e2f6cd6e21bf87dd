"""The tables on Delta: read, replaced, appended to, kept in order; by Spark, and what is small without it."""
