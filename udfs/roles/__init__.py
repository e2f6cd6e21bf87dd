"""Groups of runs with different roles: which role waits for which, and what a faster role would save."""
