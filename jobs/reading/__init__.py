"""Questions to a warehouse: read-only, and without Spark unless it is asked for."""
