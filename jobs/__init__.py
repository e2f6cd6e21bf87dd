"""Entry points, one module each, and beneath them transforms, gates, sessions and the warehouse."""
