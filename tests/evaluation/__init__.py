"""Evaluations of the simulator, the diagnosis and the warehouse's views on jobs with known truth."""
