"""Tests of the gates that check rows before they are published."""
