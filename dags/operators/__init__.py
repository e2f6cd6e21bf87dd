"""Building blocks of the DAG files: start an entry point, wait for a day's logs."""
