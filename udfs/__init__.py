"""Code that Spark executors run for each unit: functions on Arrow tables, and a numpy kernel."""
