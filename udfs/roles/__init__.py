"""Runs that form one whole: which role the others wait for, and what a faster role would save."""
