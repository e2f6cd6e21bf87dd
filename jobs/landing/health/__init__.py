"""Health of hosts: what a day's folder says of it, and what other tools' output makes of it."""
