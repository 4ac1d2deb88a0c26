"""Hooks that Codex and Claude Code run around their own compaction, for those who want no gateway.

Before a client compacts, its transcript is recorded as a thread and the thread is compacted here without a model; after it, the
client is handed the session state as context of its next request. `threadkeep hook install` writes the settings, `threadkeep hook
run` is what they call.
"""
