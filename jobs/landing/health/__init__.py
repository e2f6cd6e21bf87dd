"""Readers of a day's health of hosts, and converters of other tools' output to the same format."""
