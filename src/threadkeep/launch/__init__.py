"""Starts a client on a gateway: what each client needs for one process, the gateway beside it, and the process itself.

Nothing here writes to a file of the user's. What a client is told goes into its environment, its arguments, or a folder that is
gone when it ends.
"""
