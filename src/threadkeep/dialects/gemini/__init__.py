"""Gemini's `generateContent`."""
