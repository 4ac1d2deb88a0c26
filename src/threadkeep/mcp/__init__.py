"""Threads for any client of the Model Context Protocol: what was compacted away, found again by the agent itself."""
