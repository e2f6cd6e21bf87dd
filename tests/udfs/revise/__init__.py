"""Tests of how earlier days and other jobs revise causes."""
