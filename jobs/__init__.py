"""Entry points, one module each; the folders beside them hold their parts."""
