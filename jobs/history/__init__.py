"""Plan what is due again, and in which batches of days."""
