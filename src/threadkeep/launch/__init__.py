"""Starts a client on a gateway: the plan for each client, the gateway beside it, and the client's process.

Nothing here writes to a user's file. A client learns of the gateway by its environment, its arguments, or a folder that is
removed when it ends.
"""
