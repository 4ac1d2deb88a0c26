"""The port to models; what speaks to a provider stands behind it."""
