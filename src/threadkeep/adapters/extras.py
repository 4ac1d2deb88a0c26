"""What an adapter says where the host it is for is not installed."""

from __future__ import annotations


def missing_host(host: str, error: ImportError, *, install: str) -> ImportError:
    """Return the error to raise in place of `error`, met when the host's package was imported: it says what to install."""
    sentence = f"the adapter for {host} needs a package that is not installed ({error}); pip install {install}"
    return ImportError(sentence, name=error.name, path=error.path)
