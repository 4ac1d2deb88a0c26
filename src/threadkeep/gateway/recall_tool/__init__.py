"""Recall for the model: a tool that the gateway adds to a client's own, runs itself, and keeps out of the client's sight.

The client gets one answer, made of as many of the provider's as it took. What was called and returned is recorded beside the
history, and stands in its place again in later requests, so that what the provider is sent only grows.
"""
