"""What the health of hosts says about culprits."""
