"""The demo's agent: it keeps its whole history, resends all of it with every request, and runs the tools it is told to run."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from threadkeep.demo.provider import MODEL
from threadkeep.demo.session import Session, Turn, context_items, turn_items
from threadkeep.tokens import estimate_bytes

Json = dict[str, object]

REQUEST_SECONDS = 60
# A turn of the story is over long before this; more means that the answers no longer fit the questions.
MOST_REQUESTS_A_TURN = 40


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
    response: msgspec.Raw = msgspec.Raw(b"null")


class _Item(msgspec.Struct):
    type: str
    call_id: str = ""
    content: list[dict[str, object]] = []


class DemoClient:
    """One conversation of an agent with the model behind `base_url`.

    Attributes:
        history: The exact bytes of every item after the developer message, in order.
        sent: Every request that was meant for the model.
        aside: Positions of the history that were said between the user and the gateway.
    """

    def __init__(self, session: Session, *, base_url: str, http: ClientSession) -> None:
        developer, world = context_items()
        self.head = msgspec.json.encode(developer)
        self.history: list[bytes] = [msgspec.json.encode(world)]
        self.sent: list[Sent] = []
        self.aside: set[int] = set()
        self._outputs = _tool_outputs(session)
        self._url = f"{base_url}/responses"
        self._http = http

    async def play(self, turn: Turn, *, number: int) -> AsyncIterator[None]:
        """Say what the user says and go on until the model gives its answer; yields after each request.

        Raises:
            DemoStopped: The gateway or the provider did not answer, or the turn does not end.
        """
        self.history.append(_user_message(turn.user))
        for _ in range(MOST_REQUESTS_A_TURN):
            body = self._body()
            tokens = estimate_bytes(len(body))
            self.sent.append(Sent(turn=number, items=len(self.history), tokens=tokens, at=time.perf_counter()))
            answer = await self._ask(body)
            self.history.extend(answer)
            calls = [item.call_id for item in map(_read, answer) if item.type == "function_call"]
            for call_id in calls:
                self.history.append(self._outputs[call_id])
            yield
            if not calls:
                return
        raise DemoStopped(f"turn {number + 1} does not end")

    async def command(self, text: str) -> str:
        """Type a command that is meant for the gateway, and return its answer; both stay in the history.

        Raises:
            DemoStopped: There was no answer.
        """
        start = len(self.history)
        self.history.append(_user_message(text))
        answer = await self._ask(self._body())
        self.history.extend(answer)
        self.aside.update(range(start, len(self.history)))
        return "".join(str(part.get("text", "")) for item in map(_read, answer) for part in item.content)

    def spoken(self, start: int = 0, stop: int | None = None) -> list[bytes]:
        """Return the history between two positions without what was said to the gateway."""
        return [item for place, item in enumerate(self.history[start:stop], start=start) if place not in self.aside]

    def _body(self) -> bytes:
        items = b",".join([self.head, *self.history])
        return b'{"model":"%s","stream":true,"store":false,"input":[%s]}' % (MODEL.encode(), items)

    async def _ask(self, body: bytes) -> list[bytes]:
        """Send a request and return the items of the answer, as exact bytes."""
        try:
            return await self._answer(body)
        except (ClientError, TimeoutError) as error:
            raise DemoStopped(f"request {len(self.sent)} got no answer: {type(error).__name__} {error}") from error

    async def _answer(self, body: bytes) -> list[bytes]:
        items: list[bytes] = []
        headers = {"content-type": "application/json"}
        timeout = ClientTimeout(total=REQUEST_SECONDS)
        async with self._http.post(self._url, data=body, headers=headers, timeout=timeout) as response:
            if response.status != 200:
                text = (await response.text())[:300]
                raise DemoStopped(f"request {len(self.sent)} was refused with status {response.status}: {text}")
            buffer = b""
            async for chunk in response.content.iter_any():
                *events, buffer = (buffer + chunk).split(b"\n\n")
                for event in map(_event, events):
                    if event.type == "response.output_item.done":
                        items.append(bytes(event.item))
                    elif event.type == "response.completed":
                        return items
        raise DemoStopped(f"the answer to request {len(self.sent)} broke off")


def _tool_outputs(session: Session) -> dict[str, bytes]:
    """Return what each tool call of the story comes back with, by the id of the call."""
    return {
        str(item["call_id"]): msgspec.json.encode(item)
        for number, turn in enumerate(session.turns)
        for item in turn_items(turn, number=number)
        if item["type"] == "function_call_output"
    }


def _user_message(text: str) -> bytes:
    return msgspec.json.encode({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})


def _read(item: bytes) -> _Item:
    return msgspec.json.decode(item, type=_Item)


def _event(block: bytes) -> _Event:
    _, _, data = block.partition(b"data: ")
    return msgspec.json.decode(data, type=_Event)
