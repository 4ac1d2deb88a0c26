"""Generates the story family of long sessions: hours of invented work, full of demands that must not be lost."""
