"""Plan what has to be done again, and in which batches of days."""
