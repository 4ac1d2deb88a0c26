"""Other compactors next to threadkeep: each in its own interpreter, with the same sessions and the same summarisers."""
