"""Entry points, one module each; their machinery is in the folders below."""
