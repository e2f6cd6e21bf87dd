"""What has to be done again, in which batches of days, and doing it."""
