"""Hooks that Codex and Claude Code run around their own compaction, for people who want no gateway.

Before a client compacts, its transcript is recorded as a thread and the thread is compacted without a model; afterwards the
client gets the session state as context of its next request. `threadkeep setup CLIENT --hooks` writes the settings, which call
`threadkeep hook run`.
"""
