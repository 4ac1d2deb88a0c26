"""The demo's agent: it keeps its whole history, sends all of it with every request, and takes tool outputs from the record."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from threadkeep.demo.provider import MODEL
from threadkeep.demo.session import Session, read_message
from threadkeep.tokens import estimate_bytes

REQUEST_SECONDS = 60


class DemoStopped(Exception):
    """The session could not be played to its end; the message says why in words for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request to the model as the client sent it: in which turn, how many items and tokens, and when."""

    turn: int
    items: int
    tokens: int
    at: float


class _Event(msgspec.Struct):
    type: str
    item: msgspec.Raw = msgspec.Raw(b"null")


class DemoClient:
    """One conversation of an agent with the model behind `base_url`.

    Attributes:
        history: The exact bytes of every item after the developer message, in order.
        sent: Every request that was meant for the model.
        aside: Positions of the history that the user and the gateway said to each other.
    """

    def __init__(self, session: Session, *, base_url: str, http: ClientSession) -> None:
        self.history: list[bytes] = [bytes(session.environment)]
        self.sent: list[Sent] = []
        self.aside: set[int] = set()
        self._session = session
        self._url = f"{base_url}/responses"
        self._http = http

    async def play_turn(self, number: int) -> AsyncIterator[None]:
        """Send the user's message and continue until the model gives its answer; yields after each request.

        Raises:
            DemoStopped: The gateway or the provider gave no answer.
        """
        turn = self._session.turns[number]
        self.history.append(bytes(turn.user))
        for step in turn.steps:
            body = self._render_request()
            tokens = estimate_bytes(len(body))
            self.sent.append(Sent(turn=number, items=len(self.history), tokens=tokens, at=time.perf_counter()))
            self.history += await self._send(body)
            self.history += map(bytes, step.outputs)
            yield

    async def send_command(self, text: str) -> str:
        """Type a command for the gateway and return its answer; both stay in the history.

        Raises:
            DemoStopped: There was no answer.
        """
        start = len(self.history)
        message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        self.history.append(msgspec.json.encode(message))
        reply = await self._send(self._render_request())
        self.history += reply
        self.aside.update(range(start, len(self.history)))
        return "".join(read_message(raw).text for raw in reply)

    def select_history(self, start: int = 0, stop: int | None = None) -> list[bytes]:
        """Return the history between two positions without what was said to the gateway."""
        return [item for place, item in enumerate(self.history[start:stop], start=start) if place not in self.aside]

    def _render_request(self) -> bytes:
        items = b",".join([bytes(self._session.developer), *self.history])
        return b'{"model":"%s","stream":true,"store":false,"input":[%s]}' % (MODEL.encode(), items)

    async def _send(self, body: bytes) -> list[bytes]:
        """Send a request and return the items of the reply, as exact bytes."""
        number = len(self.sent)
        headers, timeout = {"content-type": "application/json"}, ClientTimeout(total=REQUEST_SECONDS)
        try:
            async with self._http.post(self._url, data=body, headers=headers, timeout=timeout) as response:
                text = await response.read()
        except (ClientError, TimeoutError) as error:
            raise DemoStopped(f"request {number} got no answer: {type(error).__name__} {error}") from error
        if response.status != 200:
            raise DemoStopped(f"request {number} was refused with status {response.status}: {text[:300].decode()}")
        lines = (line.removeprefix(b"data: ") for line in text.splitlines() if line.startswith(b"data: "))
        events = [msgspec.json.decode(line, type=_Event) for line in lines]
        if not events or events[-1].type != "response.completed":
            raise DemoStopped(f"the answer to request {number} broke off")
        return [bytes(event.item) for event in events if event.type == "response.output_item.done"]
