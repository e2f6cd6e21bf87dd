"""Code that answers questions from a warehouse, read-only and, unless requested, without Spark."""
