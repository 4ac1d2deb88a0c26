"""Hosts that have a slot for keeping history: each adapter is one module, one extra, and knows one host.

Import the module you need, as in `from threadkeep.adapters.openai_agents import ThreadkeepSession`; this package imports none of
them, because each needs a package of its own.
"""

from __future__ import annotations


def missing_host(host: str, error: ImportError, *, install: str) -> ImportError:
    """Return the error to raise in place of `error`, met when the host's package was imported: it says what to install."""
    sentence = f"the adapter for {host} needs a package that is not installed ({error}); pip install {install}"
    return ImportError(sentence, name=error.name, path=error.path)
