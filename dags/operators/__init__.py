"""Building blocks of the DAG files: how an entry point is started, how a day is waited for."""
