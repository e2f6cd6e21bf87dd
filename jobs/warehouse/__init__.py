"""Tables on Delta: read, replace, append and maintain them with Spark, and small tables without Spark."""
