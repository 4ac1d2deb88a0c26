"""Steers and shows a gateway from outside a conversation."""
