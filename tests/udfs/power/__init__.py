"""Tests of the power of a day's units."""
