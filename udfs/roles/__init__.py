"""Runs that are part of one whole: which role the others wait for, and what a faster role returns."""
