"""Steps op by op, and their trace events."""
