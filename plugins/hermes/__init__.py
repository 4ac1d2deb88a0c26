"""threadkeep as Hermes' context engine. Needs the package `threadkeep` in the interpreter Hermes runs in."""

from threadkeep.adapters.hermes import register

__all__ = ["register"]
