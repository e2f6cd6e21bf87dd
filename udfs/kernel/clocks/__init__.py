"""Estimate the clocks of hosts from the trace, in which two hosts record the end of the same event."""
