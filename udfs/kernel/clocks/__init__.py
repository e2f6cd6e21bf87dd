"""Clocks of the hosts from the trace itself: ends that are one instant, read from two clocks."""
