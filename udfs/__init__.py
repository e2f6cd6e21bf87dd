"""Code that runs inside executors: the Arrow layer, dense arrays beneath it, and a numpy kernel."""
