"""Answers for agents, by the Model Context Protocol: tools over the read-only answers, with short replies."""
