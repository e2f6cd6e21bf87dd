"""Timelines of single steps, op by op, and their export as trace events."""
