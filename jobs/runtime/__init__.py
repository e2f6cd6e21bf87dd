"""What a command runs on: settings, session, Java, arguments, progress, how runs end."""
