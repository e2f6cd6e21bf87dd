"""Evidence about culprits from the health of hosts."""
