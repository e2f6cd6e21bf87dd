"""Find failed health checks of hosts that explain why workers, stages or hosts are slow."""
