"""holdfast as Hermes' context engine. Needs the package `holdfast` in the interpreter Hermes runs in."""

from holdfast.adapters.hermes import register

__all__ = ["register"]
