"""Jobs whose workers wait for their transfers, or do not, simulated; and what the replay makes of them."""
