"""Models by name, opened when first named and closed with the store."""

from __future__ import annotations

from collections.abc import Mapping

from threadkeep.llm import Model, ProviderModel, open_model


class Models:
    """The models a process talks to; `environ` holds their credentials and addresses under the providers' usual names."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._opened: dict[str, ProviderModel] = {}

    def named(self, name: str) -> Model:
        """Return the model a person calls `name`; nothing is sent before it is asked.

        Raises:
            UnknownModel: There is no such model, or what speaks to it is not there.
        """
        if name not in self._opened:
            self._opened[name] = open_model(name, environ=self._environ)
        return self._opened[name]

    async def close(self) -> None:
        """Let go of every connection."""
        opened, self._opened = self._opened, {}
        for model in opened.values():
            await model.aclose()
