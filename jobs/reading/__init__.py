"""Answer questions from a warehouse: read-only, and without Spark unless requested."""
