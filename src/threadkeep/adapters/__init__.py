"""Hosts that have a slot for keeping history: each adapter is one module, one extra, and knows one host.

Import the module you need, as in `from threadkeep.adapters.openai_agents import ThreadkeepSession`; this package imports none of
them, because each needs a package of its own.
"""
