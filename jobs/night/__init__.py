"""The phases of a night, and doing them: for one day, or for batches of days."""
