"""The phases of the daily run, and the code that runs them for one day or for batches of days."""
