"""Other people's compactors beside holdfast: each in its own interpreter, fed the same sessions and the same summariser."""
