"""Tests of the revision of causes."""
