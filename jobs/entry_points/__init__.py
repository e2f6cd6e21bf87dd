"""Code that all commands share: sessions, readers, checks of input, the write lock, exit status, run log."""
