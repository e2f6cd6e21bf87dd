"""Shared code of tests."""
