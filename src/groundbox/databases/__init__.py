"""Real databases, asked from the host: credentials and connections never enter a sandbox."""
