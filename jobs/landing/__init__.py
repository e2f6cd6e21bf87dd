"""The landing: files from producers, listed, read once by one strict reader, staged as rows and rejects."""
