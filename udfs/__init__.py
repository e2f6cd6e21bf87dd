"""Code that runs inside executors: the Arrow layer on top, dense arrays beneath, a numpy kernel at the
bottom."""
