"""Model Context Protocol server: read-only tools for agents, with short replies."""
