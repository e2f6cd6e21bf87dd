"""The landing: what producers left, listed, read once by one strict reader, and staged as rows and rejects."""
