"""Other people's compactors beside threadkeep: each in its own interpreter, fed the same sessions and the same summariser."""
