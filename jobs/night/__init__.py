"""The phases of the daily run, and running them for one day or for batches of days."""
