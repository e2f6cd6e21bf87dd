"""Tests of the power that a day's units draw."""
