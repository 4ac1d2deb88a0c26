"""Context baselines: what the model was last told about its world (cwd, permissions, …), and updates with what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from html import escape
from typing import Any, Final, TypeAlias, assert_never

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.errors import BadInput
from threadkeep.items import is_json
from threadkeep.store import NewRecord, RecordKind, ThreadStore
from threadkeep.threads import Arrival, EntryKind, History, Pointer, Tip, decode_body, encode_body, make_records
from threadkeep.threads.backend import ThreadBackend
from threadkeep.threads.json_diff import Edit, Hunk, apply_edits, apply_hunks, diff_json, diff_lines, is_same_json, measure_json
from threadkeep.threads.json_diff import render_edits as told_edits
from threadkeep.threads.reader import load_history, load_live_path, load_records
from threadkeep.threads.records import VERSION
from threadkeep.threads.writer import append_items, make_arrival

World: TypeAlias = dict[str, Any]

# The element for host context, so that it is not taken for a person's words.
ELEMENT: Final = "environment_context"
SECTION: Final = "section"
ALL_OF_IT: Final = "This is your world as it is now; it replaces everything told about it before."
WHAT_CHANGED: Final = "Your world changed since it was last described; what is not named here is as it was."
# A text of this many lines is updated line by line if at least half of it stays.
FEWEST_LINES: Final = 20
# The cost of naming the lines of a hunk.
HUNK_CHARS: Final = 80
# A smaller change is not split into edits.
WORTH_EDITS_BYTES: Final = 400


class Whole(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag="whole"):
    """The whole section, new or replaced."""

    value: Any


class Merged(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag="merged"):
    """A JSON merge patch of a section that is an object; `null` removes a field."""

    patch: dict[str, Any]


class Edited(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag="edited"):
    """Changed lines of a long text."""

    hunks: list[Hunk]


class Patched(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag="patched"):
    """Edits at places within a section, where a merge patch would repeat long lists or texts."""

    edits: list[Edit]


class Removed(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag="removed"):
    """A removed section."""


Change: TypeAlias = Whole | Merged | Edited | Patched | Removed


class BaselineBody(msgspec.Struct, frozen=True, kw_only=True):
    """One update: the body of a `context` record; its item is the next record.

    Attributes:
        told: The changes by section; every section, if `base` is empty.
        base: A digest of the world that is updated; empty for a full description.
        result: A digest of the world after it.
        fields: Always empty, so that readers of other `context` records find no request fields.
    """

    told: dict[str, Change]
    result: str
    base: str = ""
    fields: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    v: int = VERSION


def check_world(sections: Mapping[str, object]) -> World:
    """Return a host's sections without sections and fields that are None.

    Raises:
        BadInput: A section has no name, or is not valid JSON (half a surrogate pair, for example).
    """
    try:
        world = {name: _drop_nulls(value) for name, value in sections.items() if value is not None}
        sound = is_json(world) and all(name.strip() for name in world) and bool(msgspec.json.encode(world))
    except (RecursionError, UnicodeEncodeError):
        world, sound = {}, False
    if not sound:
        raise BadInput("a world is named sections of texts or JSON values; one of them is neither, or has no name")
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
        world = apply_changes(telling.told, to=world if telling.base and world is not None else {})
        digest = telling.result
    return world


def compare_worlds(world: World, *, known: World | None) -> BaselineBody | None:
    """Return the update from `known` to `world`; None if nothing changed."""
    if known is None:
        told: dict[str, Change] = {name: Whole(value=value) for name, value in world.items()}
        return BaselineBody(told=told, result=_digest_world(world)) if world else None
    changes = diff_worlds(known, world)
    return BaselineBody(told=changes, base=_digest_world(known), result=_digest_world(world)) if changes else None


def diff_worlds(old: World, new: World) -> dict[str, Change]:
    """Return the changes from `old` to `new`: in the order of `new`, then removed sections."""
    found: dict[str, Change] = {}
    for name, value in new.items():
        if name not in old:
            found[name] = Whole(value=value)
        elif not is_same_json(old[name], value):
            found[name] = _diff_values(old[name], value)
    return found | {name: Removed() for name in old if name not in new}


def apply_changes(changes: Mapping[str, Change], *, to: World) -> World:
    """Return the world after `changes`."""
    world = dict(to)
    for name, change in changes.items():
        match change:
            case Whole():
                world[name] = change.value
            case Merged():
                world[name] = apply_merge_patch(world.get(name), change.patch)
            case Edited():
                world[name] = "\n".join(apply_hunks(str(world.get(name, "")).split("\n"), change.hunks))
            case Patched():
                world[name] = apply_edits(world.get(name), change.edits)
            case Removed():
                world.pop(name, None)
            case _:
                assert_never(change)
    return world


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7396) from `old` to `new`, which have no null fields."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if name not in old:
            patch[name] = value
        elif not is_same_json(before, value):
            both = isinstance(before, dict) and isinstance(value, dict)
            patch[name] = merge_patch(before, value) if both else value  # type: ignore[arg-type]  # both are objects
    return patch


def apply_merge_patch(value: object, patch: Any) -> Any:
    """Return `value` after a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for name, inner in patch.items():
        if inner is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), inner)
    return result


def render_baseline(telling: BaselineBody) -> str:
    """Render an update for the model. A section's text cannot close its element: end tags are escaped."""
    opening = f'<{ELEMENT} update="changes">\n{WHAT_CHANGED}' if telling.base else f"<{ELEMENT}>\n{ALL_OF_IT}"
    is_new = not telling.base
    sections = [_render_section(name, change, is_new=is_new) for name, change in telling.told.items()]
    return "\n".join((opening, *sections, f"</{ELEMENT}>"))


def _render_section(name: str, change: Change, *, is_new: bool) -> str:
    label = escape(" ".join(name.split()))
    match change:
        case Whole():
            told = "" if is_new else ' change="now reads"'
            return f'<{SECTION} name="{label}"{told}>\n{_escape_elements(change.value)}\n</{SECTION}>'
        case Merged():
            how = "merge patch; null: no longer there"
            return f'<{SECTION} name="{label}" change="{how}">\n{_escape_elements(change.patch)}\n</{SECTION}>'
        case Edited():
            return "\n".join(_render_hunk(label, hunk) for hunk in change.hunks)
        case Patched():
            how = "edits; places as they were before any of them, list elements counted from 0"
            return f'<{SECTION} name="{label}" change="{how}">\n{_escape_elements(told_edits(change.edits))}\n</{SECTION}>'
        case Removed():
            return f'<{SECTION} name="{label}" change="no longer applies"></{SECTION}>'
        case _:
            assert_never(change)


def _render_hunk(label: str, hunk: Hunk) -> str:
    """Render one change of a text; line numbers are those of the old text."""
    place = f"line {hunk.first + 1}" if hunk.gone == 1 else f"lines {hunk.first + 1} to {hunk.first + hunk.gone}"
    if not hunk.gone:
        place = f"inserted before what was line {hunk.first + 1}"
    elif hunk.lines:
        place = f"what was {place} now reads"
    else:
        return f'<{SECTION} name="{label}" change="what was {place} is gone"></{SECTION}>'
    words = _escape_elements("\n".join(hunk.lines))
    return f'<{SECTION} name="{label}" change="{place}">\n{words}\n</{SECTION}>'


def _escape_elements(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    for element in (ELEMENT, SECTION):
        text = text.replace(f"</{element}", f"<\\/{element}")
    return text


def _diff_values(old: object, new: object) -> Change:
    if isinstance(old, str) and isinstance(new, str) and (edit := _diff_texts(old, new)) is not None:
        return edit
    plain: Change = Whole(value=new)
    if isinstance(old, dict) and isinstance(new, dict):
        plain = Merged(patch=merge_patch(old, new))
    if measure_json(plain) < WORTH_EDITS_BYTES:
        return plain
    edits = diff_json(old, new)
    return plain if edits is None or 2 * measure_json(edits) > measure_json(plain) else Patched(edits=edits)


def _diff_texts(old: str, new: str) -> Edited | None:
    """Return the changed lines of two long texts; None if that is not much shorter than the whole text."""
    before, after = old.split("\n"), new.split("\n")
    if min(len(before), len(after)) < FEWEST_LINES:
        return None
    hunks = diff_lines(before, after)
    told = sum(len(line) + 1 for hunk in hunks for line in hunk.lines) + HUNK_CHARS * len(hunks)
    return Edited(hunks=hunks) if 2 * told <= len(new) else None


def _drop_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _drop_nulls(inner) for name, inner in value.items() if inner is not None}


def _digest_world(world: World) -> str:
    encoded = msgspec.json.encode(world, order="deterministic")
    return f"w1:{blake2b(encoded, digest_size=16).hexdigest()}"


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
