"""Context baselines: what the model was last told about its world (cwd, permissions, …), and updates with what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from html import escape
from typing import Final, TypeAlias

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.errors import InvalidArgument
from threadkeep.items import is_json
from threadkeep.store import NewRecord, RecordKind, ThreadStore
from threadkeep.threads import Arrival, EntryKind, History, Pointer, Tip, decode_body, encode_body, make_records
from threadkeep.threads.backend import ThreadBackend
from threadkeep.threads.reader import load_history, load_live_path, load_records
from threadkeep.threads.records import VERSION
from threadkeep.threads.writer import append_items, make_arrival

World: TypeAlias = dict[str, object]

# The element for host context, so that it is not taken for a person's words.
ELEMENT: Final = "environment_context"
SECTION: Final = "section"
ALL_OF_IT: Final = "This is your world as it is now; it replaces everything told about it before."
WHAT_CHANGED: Final = "Your world changed since it was last described; what is not named here is as it was."


class BaselineBody(msgspec.Struct, frozen=True, kw_only=True):
    """One update: the body of a `context` record; its item is the next record.

    Attributes:
        patch: A JSON merge patch (RFC 7396) of the sections; all of them, if `base` is empty.
        merged: The sections whose patch is one of their fields; the others are whole, or removed (null).
        base: A digest of the world that is updated; empty for a full description.
        result: A digest of the world after it.
        fields: Always empty, so that readers of other `context` records find no request fields.
    """

    patch: dict[str, object]
    result: str
    merged: list[str] = msgspec.field(default_factory=list)
    base: str = ""
    fields: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    v: int = VERSION


def check_world(sections: Mapping[str, object]) -> World:
    """Return a host's sections without sections and fields that are None.

    Raises:
        InvalidArgument: A section has no name, or is not valid JSON (half a surrogate pair, for example).
    """
    try:
        world = {name: _drop_nulls(value) for name, value in sections.items() if value is not None}
        sound = is_json(world) and all(name.strip() for name in world) and bool(msgspec.json.encode(world))
    except (RecursionError, UnicodeEncodeError):
        world, sound = {}, False
    if not sound:
        text = "a world is named sections of texts or JSON values; one of them is neither, or has no name"
        raise InvalidArgument("world", text)
    return world


def fold_updates(tellings: Sequence[BaselineBody]) -> World | None:
    """Return the world that the updates in the window, oldest first, add up to.

    None if there is no full description, or if an update between was lost.
    """
    world: World | None = None
    digest = ""
    for telling in tellings:
        if telling.base and (world is None or telling.base != digest):
            world = None
            continue
        world = apply_merge_patch(world if telling.base else {}, telling.patch)
        digest = telling.result
    return world


def compare_worlds(world: World, *, known: World | None) -> BaselineBody | None:
    """Return the update from `known` to `world`; None if nothing changed."""
    patch = merge_patch(known or {}, world)
    if not patch:
        return None
    merged = [name for name, change in patch.items() if change is not None and isinstance((known or {}).get(name), dict)]
    return BaselineBody(
        patch=patch,
        merged=[name for name in merged if isinstance(world[name], dict)],
        base="" if known is None else _digest_world(known),
        result=_digest_world(world),
    )


def merge_patch(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON merge patch from `old` to `new`, which have no null fields: what is new first, then what is gone."""
    patch: dict[str, object] = {}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := merge_patch(before, value):
                patch[name] = inner
        elif before is None or _encode_sorted(before) != _encode_sorted(value):
            patch[name] = value
    return patch | {name: None for name in old if name not in new}


def apply_merge_patch(value: object, patch: Mapping[str, object]) -> dict[str, object]:
    """Return `value` after a JSON merge patch of an object."""
    result = dict(value) if isinstance(value, dict) else {}
    for name, inner in patch.items():
        if inner is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), inner) if isinstance(inner, dict) else inner
    return result


def render_baseline(telling: BaselineBody) -> str:
    """Render an update for the model. A section's text cannot close its element: end tags are escaped."""
    opening = f'<{ELEMENT} update="changes">\n{WHAT_CHANGED}' if telling.base else f"<{ELEMENT}>\n{ALL_OF_IT}"
    sections = [_render_section(name, change, telling) for name, change in telling.patch.items()]
    return "\n".join((opening, *sections, f"</{ELEMENT}>"))


def _render_section(name: str, change: object, telling: BaselineBody) -> str:
    label = escape(" ".join(name.split()))
    if change is None:
        return f'<{SECTION} name="{label}" change="no longer applies"></{SECTION}>'
    how = "merge patch; null: no longer there" if name in telling.merged else "now reads"
    told = f' change="{how}"' if telling.base else ""
    return f'<{SECTION} name="{label}"{told}>\n{_escape_elements(change)}\n</{SECTION}>'


def _escape_elements(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    for element in (ELEMENT, SECTION):
        text = text.replace(f"</{element}", f"<\\/{element}")
    return text


def _encode_sorted(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _drop_nulls(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {name: _drop_nulls(inner) for name, inner in value.items() if inner is not None}


def _digest_world(world: World) -> str:
    return f"w1:{blake2b(_encode_sorted(world), digest_size=16).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineUpdate:
    """An update to be recorded: the record's body and the item for the model."""

    body: BaselineBody
    item: Arrival

    @property
    def is_whole(self) -> bool:
        """Whether it is a full description."""
        return not self.body.base

    @property
    def size_bytes(self) -> int:
        """The size it adds to every later request."""
        return len(self.item.item.raw)


async def load_world(store: ThreadStore, thread_id: str) -> World | None:
    """Return the world as a thread's window describes it; None if it does not, or no longer does."""
    path = await load_live_path(store, thread_id)
    return fold_updates(await _load_updates(store, await load_history(store, path)))


async def plan_update(backend: ThreadBackend, thread_id: str, world: World, *, dialect: Dialect) -> BaselineUpdate | None:
    """Return the update a thread's model needs to know `world`; None if its window says it already."""
    body = compare_worlds(world, known=await load_world(backend.store, thread_id))
    if body is None:
        return None
    return BaselineUpdate(
        body=body, item=make_arrival(dialect, dialect.make_user_message(render_baseline(body)), redact=backend.redact)
    )


async def append_with_update(
    backend: ThreadBackend,
    thread_id: str,
    telling: BaselineUpdate | None,
    arrivals: Sequence[Arrival],
    *,
    tip: Tip,
    model: str | None = None,
    issuer: str | None = None,
) -> Tip:
    """Append an update, if any, then `arrivals`, as one unit and return the tip after them. Durable when it returns.

    The update's record comes right before its item, so a rollback takes back both.

    Raises:
        OrdinalConflict: Another writer appended since `tip` was read.
    """
    if telling is None:
        return await append_items(backend, thread_id, arrivals, tip=tip, model=model, issuer=issuer)
    key, now = backend.store.tenant.key, backend.clock.now_ms()
    records, after = make_records(tip, [telling.item, *arrivals], key=key, at_ms=now, model=model, issuer=issuer)
    place = next(at for at, record in enumerate(records) if record.kind is RecordKind.ITEM)
    body = encode_body(telling.body)
    record = NewRecord(kind=RecordKind.CONTEXT, at_ms=now, turn=records[place].turn, tokens=0, body=body)
    reached = await backend.append(thread_id, [*records[:place], record, *records[place:]], expected=tip.next)
    return replace(after, next=reached)


async def _load_updates(store: ThreadStore, history: History) -> list[BaselineBody]:
    """Return the updates whose item is in the window, oldest first."""
    shown = {entry.source for entry in history.entries if entry.kind is EntryKind.KEEP and entry.source is not None}
    before = (Pointer(source.thread_id, source.ordinal - 1) for source in shown)
    found: dict[int, BaselineBody] = {}
    for place, record in (await load_records(store, before, kinds={RecordKind.CONTEXT})).items():
        try:
            found[place.ordinal] = decode_body(record.body, BaselineBody)
        except msgspec.MsgspecError:
            # A gateway's record of request fields; no baseline.
            continue
    return [found[ordinal] for ordinal in sorted(found)]
