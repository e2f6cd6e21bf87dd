"""The landing: what producers left, listed, read once by one strict reader, staged as rows and rejects."""
