"""Measures what the gateway adds to a request, next to a bare pass-through and other proxies."""
