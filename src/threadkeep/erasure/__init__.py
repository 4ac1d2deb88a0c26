"""Erasing on request, and handing over everything a store has about a tenant."""
