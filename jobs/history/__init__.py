"""Planning of backfills: which units and days have to be done again, and in which batches of days."""
