"""The proxy between a client that resends its whole history and a provider."""
