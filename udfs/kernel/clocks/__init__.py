"""Estimation of host clocks from the trace itself: two clocks record the end of the same event."""
