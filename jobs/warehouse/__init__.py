"""Tables on Delta: read, replace, append, maintain; by Spark, and for small tables without it."""
