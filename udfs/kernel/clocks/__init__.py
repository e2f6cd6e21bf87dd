"""Host clocks estimated from the trace itself: ends of one event that two clocks recorded."""
