"""Timelines of single steps, op by op, and their trace events."""
