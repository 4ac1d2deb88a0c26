"""The samples that checks of a dialect are given, and variations built from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any, Final, Protocol

from threadkeep.dialects import Dialect, Reply, Request
from threadkeep.items import Item

Json = dict[str, Any]

HALF: Final = rb"\ud83d"
UNKNOWN_FIELD: Final[Json] = {"x_unknown": {"z": [1, None, 0.5, "\u2028é"], "a": {}}}
ODD_VALUES: Final[tuple[object, ...]] = (
    *(None, True, -1, 0.5, 10**25, "", "x", "user", "tool_result"),
    *([], [[]], {}, [1, {}], {"type": 3}, {"type": []}),
)
ODD_BYTES: Final = (b"", b"\xff", b"[1]", b"null", b'{"a":NaN}', b'{"v":1e999999999}', b'{"a":' * 3_000 + b"1" + b"}" * 3_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """A recorded stream and the reply a reader must build from it; `ended` says whether it holds the terminal event."""

    stream: bytes
    reply: Reply
    ended: bool = True


class DialectSamples(Protocol):
    """Items of one dialect, as its own clients and providers write them. What is built is decoded JSON."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def requests(self) -> Sequence[bytes]:
        """Request bodies without blanks around their fields and messages; each can be split."""
        ...

    @property
    def streams(self) -> Sequence[Streamed]: ...

    def person(self, text: str) -> Json: ...

    def pictured(self, text: str) -> Json:
        """A person's message with one image."""
        ...

    def host(self, text: str) -> Json:
        """A client's text about its environment, in the user's role."""
        ...

    def system(self, text: str) -> Json: ...

    def answer(self, text: str) -> Json: ...

    def thought(self, text: str) -> Json:
        """An item that holds reasoning and nothing else."""
        ...

    def calls(self, arguments: Mapping[str, str], *, thought: str | None = None) -> list[Json]:
        """Calls made at once, by id, with the reasoning that led to them."""
        ...

    def outputs(self, texts: Mapping[str, str]) -> list[Json]:
        """The outputs of those calls, by id."""
        ...

    def unknown(self) -> Json:
        """An item of an unknown form."""
        ...

    def respelled(self, item: Json) -> Json:
        """The same item as another client would send it: other ids, markers, forms of content."""
        ...

    def may_follow(self, before: Json, after: Json) -> bool:
        """Whether the provider accepts `after` right behind `before`."""
        ...


def build_items(samples: DialectSamples) -> list[Json]:
    """Return one item of each sort the samples have."""
    return [
        samples.person("Never push to main."),
        samples.pictured("What is this?"),
        samples.host("cwd: /src"),
        samples.system("Be brief."),
        samples.answer("It is a logo."),
        samples.thought("Look first."),
        *samples.calls({"call_1": '{"path":"a"}', "call_2": "{}"}, thought="Both."),
        *samples.outputs({"call_1": "one", "call_2": "two"}),
        samples.unknown(),
    ]


def parse_all(samples: DialectSamples, items: Sequence[Json]) -> list[Item]:
    return [samples.dialect.parse(item) for item in items]


def split_request(samples: DialectSamples, body: bytes) -> Request:
    request = samples.dialect.split(body)
    if request is None:
        raise AssertionError(f"a request with a readable history can be taken apart: {body!r:.300}")
    return request


def shuffle_keys(value: object, order: Random) -> object:
    """Return a value with the keys of its every object in another order."""
    if isinstance(value, dict):
        return {name: shuffle_keys(value[name], order) for name in order.sample(list(value), len(value))}
    return [shuffle_keys(each, order) for each in value] if isinstance(value, list) else value


def generate_strange_values(values: Sequence[Json], luck: Random, *, count: int) -> Iterator[object]:
    """Yield values like these with something odd in the place of one of their parts."""
    yield from ODD_VALUES
    yield from ({"role": one, "type": other} for one, other in combinations(ODD_VALUES, 2))
    for _ in range(count):
        yield _mutate(luck.choice(values), luck)


def _mutate(value: object, luck: Random) -> object:
    if luck.random() < 0.25 or not value or not isinstance(value, (dict, list)):
        return luck.choice(ODD_VALUES)
    place = luck.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if isinstance(value, dict):
        return {**value, place: _mutate(value[place], luck)}
    return [_mutate(each, luck) if index == place else each for index, each in enumerate(value)]
