"""Health of hosts: readers of a day's folder, and converters of other tools' output."""
