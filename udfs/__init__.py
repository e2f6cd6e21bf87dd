"""What runs inside executors: the Arrow face on top, dense arrays beneath, the numpy kernel at the bottom."""
