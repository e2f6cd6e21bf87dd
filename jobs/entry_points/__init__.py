"""What commands share: with a session or with a reader, checks of input, one writer, how runs end."""
