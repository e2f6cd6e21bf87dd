"""Pages of the report on demand, for a browser of this machine."""
