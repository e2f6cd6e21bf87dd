"""Tests of power over a day."""
