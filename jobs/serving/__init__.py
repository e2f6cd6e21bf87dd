"""Pages of the report on demand, for a browser on this machine."""
