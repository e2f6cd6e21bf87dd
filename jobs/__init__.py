"""Entry points, one module each; the folders beside them hold what they use."""
