"""Runtime of commands: settings, session, Java, arguments, progress."""
