"""Speaks HTTP with clients and providers."""
