"""Building blocks of the DAG files, which start an entry point or wait for a day's logs."""
