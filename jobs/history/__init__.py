"""Plan and repeat work: what is due again, in which batches of days."""
