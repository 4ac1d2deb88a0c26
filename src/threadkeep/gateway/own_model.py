"""The client's own model, asked on the client's behalf: same provider, same headers, same account."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from threadkeep.dialects import Dialect, Request
from threadkeep.errors import ModelRejected, ModelUnavailable
from threadkeep.gateway.exchange import AnswerTooLong, SendAlike
from threadkeep.items import Item
from threadkeep.llm.answers import AnswerReader, read_answer
from threadkeep.llm.base import ModelReply
from threadkeep.llm.failures import read_refusal


class OwnModel:
    """Implements `threadkeep.llm.base.Model` with what a client's request came with. It holds the client's credentials, through
    `send_alike`, and lives no longer than the compaction it was made for.

    `legal` takes out of an item what the provider would refuse in the request that is asked; None leaves the item out.
    """

    def __init__(
        self,
        send_alike: SendAlike,
        *,
        own: Request,
        dialect: Dialect,
        name: str,
        issuer: str,
        window_tokens: int,
        legal: Callable[[Item], Item | None],
    ) -> None:
        self._send_alike = send_alike
        self._own = own
        self._dialect = dialect
        self._name = name
        self._issuer = issuer
        self._window_tokens = window_tokens
        self._legal = legal

    @property
    def name(self) -> str:
        return self._name

    @property
    def issuer(self) -> str:
        """The account as the gateway tells accounts apart."""
        return self._issuer

    @property
    def dialect(self) -> str:
        return self._dialect.name

    @property
    def window_tokens(self) -> int | None:
        return self._window_tokens

    async def ask(self, request: Request) -> ModelReply:
        api, items = self._dialect.api, self.permitted(request.items)
        request = api.copy_delivery(request, self._own)
        if api.cache_markers is not None:
            items = api.cache_markers.limit_markers(items, request)
        body = self._dialect.join(request, items)
        try:
            heard = await self._send_alike(body)
        except AnswerTooLong as error:
            raise ModelRejected(self._name, status=200, reason=str(error)) from error
        except ConnectionError as error:
            raise ModelUnavailable(self._name, reason=str(error)) from error
        if heard.status >= 400:
            raise read_refusal(self._name, status=heard.status, body=heard.body, headers=heard.headers)
        if "json" in heard.headers.get("content-type", ""):
            return read_answer(heard.body, name=self._name, dialect=self._dialect)
        reader = AnswerReader(self._dialect)
        reader.feed(heard.body)
        return reader.reply(self._name)

    def permitted(self, items: Sequence[Item]) -> list[Item]:
        """Return items as the provider takes them."""
        return [item for raw in items if (item := self._legal(raw)) is not None]
