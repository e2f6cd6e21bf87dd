"""Shared by all commands: sessions and readers, checks of input, the write lock, exit status and run log."""
