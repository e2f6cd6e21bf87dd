"""Tests of how earlier days and other jobs revise a unit's causes."""
