"""Reads sessions of the pi coding agent, linear or as a tree of entries.

pi has its own format and renders it for each provider. A message becomes what pi sends in the `messages` dialect, which is
closest to its own: every text, argument and signature with its exact bytes. Other fields (usage, model, details) are kept as a
note.
"""

from __future__ import annotations

from collections.abc import Callable

from threadkeep.dialects import MESSAGES
from threadkeep.dialects.raw_json import encode_value, join_list, join_object, make_text_part, read_value, split_list
from threadkeep.items import Item
from threadkeep.transfer.json_rows import (
    Row,
    drop_fields,
    get_number,
    get_text,
    get_time_ms,
    has_more,
    is_true,
    make_thread_name,
    parse_row,
)
from threadkeep.transfer.transcript_form import Compacted, GoTo, Lane, Note, PutItem, Step, Titled, Trouble

ISSUER = "pi"
DIALECT = MESSAGES.name
SUMMARY = ("The conversation history before this point was compacted into the following summary:\n\n<summary>\n", "\n</summary>")
BRANCH = ("The following is a summary of a branch that this conversation came back from:\n\n<summary>\n", "</summary>")
QUIET = frozenset({"thinking_level_change", "model_change", "custom", "label", "session_info"})
ENTRY = frozenset({"type", "id", "parentId", "timestamp", "message"})
PLAIN = frozenset({"role", "content", "timestamp", "toolCallId", "isError"})
# The fields of each kind of block that pi sends.
SENT = {
    "text": frozenset({"type", "text"}),
    "thinking": frozenset({"type", "thinking", "thinkingSignature"}),
    "toolCall": frozenset({"type", "id", "name", "arguments"}),
    "image": frozenset({"type", "data", "mimeType"}),
}


class PiReader:
    """Reads one session; see `LineReader`."""

    def __init__(self) -> None:
        self._begun = False
        self._entries = 0

    def feed(self, line: bytes) -> list[Step]:
        if not line.strip():
            return []
        row = parse_row(line)
        begun, self._begun = self._begun, True
        steps: list[Step] = []
        if not begun:
            if row is not None and get_text(row, "type") == "session":
                self._entries += 1
                return [_make_lane(line, row)]
            name = make_thread_name("", prefix="pi", content=line)
            steps = [Lane(thread_id=name, dialect=DIALECT), Trouble(text="it does not begin with a session header")]
        if row is None:
            return [*steps, Trouble(text="not a JSON object"), Note(body=line)]
        # The oldest sessions name an entry by its index among the readable lines.
        key = get_text(row, "id") or f"#{self._entries}"
        self._entries += 1
        if "parentId" in row and get_text(row, "type") != "session":
            steps.append(GoTo(key=get_text(row, "parentId") or None, at_ms=get_time_ms(row)))
        return [*steps, *_read_entry(line, row, key)]

    def finish(self) -> list[Step]:
        return []


def _make_lane(line: bytes, row: Row) -> Lane:
    name = make_thread_name(get_text(row, "id"), prefix="pi", content=line)
    origin = get_text(row, "branchedFrom") or get_text(row, "parentSession")
    # A branch begins with a copy of the lines of its origin, whose file is called TIME_ID.jsonl.
    stem = origin.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".jsonl").rsplit("_", 1)[-1]
    source = make_thread_name(stem, prefix="pi", content=line) if stem else None
    note = Note(body=line, at_ms=get_time_ms(row))
    return Lane(thread_id=name, dialect=DIALECT, session=get_text(row, "id"), copied_from=source, opening=(note,))


def _read_entry(line: bytes, row: Row, key: str) -> list[Step]:
    kind, at = get_text(row, "type"), get_time_ms(row)
    whole = Note(body=line, key=key, at_ms=at)
    match kind:
        case "message":
            return _read_message(row, key, whole)
        case "compaction":
            return _read_compaction(row, whole)
        case "branch_summary" if get_text(row, "summary"):
            item = _make_user_item(encode_value(BRANCH[0] + get_text(row, "summary") + BRANCH[1]))
            return [PutItem(item=item, key=key, at_ms=at), Note(body=line, at_ms=at)]
        case "custom_message":
            content = _render_content(row.get("content", b"null"), _render_block)
            if content is None:
                return [Trouble(text="a custom message that cannot be read"), whole]
            return [
                PutItem(item=_make_item("user", content), key=key, at_ms=at),
                Note(body=drop_fields(row, "content"), at_ms=at),
            ]
        case "session_info" if get_text(row, "name"):
            return [whole, Titled(title=get_text(row, "name"))]
        case _ if kind in QUIET or kind in ("branch_summary", "session"):
            return [whole]
        case _:
            return [Trouble(text=f"an entry of an unknown type: {kind[:40]!r}"), whole]


def _read_compaction(row: Row, whole: Note) -> list[Step]:
    index = get_number(row, "firstKeptEntryIndex")
    first = get_text(row, "firstKeptEntryId") or (f"#{index}" if index is not None else None)
    item = _make_user_item(encode_value(SUMMARY[0] + get_text(row, "summary") + SUMMARY[1]))
    return [whole, Compacted(layout=(item,), issuer=ISSUER, cut=first, at_ms=whole.at_ms)]


def _read_message(row: Row, key: str, whole: Note) -> list[Step]:
    message = parse_row(row.get("message", b"null"))
    item = _render_message(message) if message is not None else None
    if message is None or item is None:
        hidden = message is not None and get_text(message, "role") == "bashExecution"
        return [*(() if hidden else (Trouble(text="a message that cannot be read"),)), whole]
    steps: list[Step] = [PutItem(item=item, key=key, at_ms=whole.at_ms)]
    if _has_more_to_say(message):
        steps.append(Note(body=whole.body, at_ms=whole.at_ms))
    elif has_more(row, ENTRY) or has_more(message, PLAIN) or get_text(message, "role") == "bashExecution":
        rest = join_object({**row, "message": drop_fields(message, "content", "output")})
        steps.append(Note(body=rest, at_ms=whole.at_ms))
    return steps


def _has_more_to_say(message: Row) -> bool:
    """Whether a message's blocks hold anything that pi does not send."""
    blocks = [parse_row(span) for span in split_list(message.get("content", b"null")) or []]
    if len(blocks) > 1 and get_text(message, "role") == "toolResult":
        return True
    return any(row is not None and has_more(row, SENT.get(get_text(row, "type"), frozenset())) for row in blocks)


def _render_message(message: Row) -> Item | None:
    """Return a message as pi sends it; None if it sends nothing, or if it cannot be read."""
    content = message.get("content", b"null")
    match get_text(message, "role"):
        case "user" | "custom" | "hookMessage":
            blocks = _render_content(content, _render_block)
            return None if blocks is None else _make_item("user", blocks)
        case "assistant":
            blocks = _render_content(content, _render_answer_block)
            return None if blocks is None else _make_item("assistant", blocks)
        case "toolResult":
            shown = _render_result(content)
            failed = b"true" if is_true(message, "isError") else b"false"
            result = {"type": b'"tool_result"', "tool_use_id": message.get("toolCallId", b'""')}
            return (
                None
                if shown is None
                else _make_item("user", join_list([join_object({**result, "content": shown, "is_error": failed})]))
            )
        case "bashExecution" if not is_true(message, "excludeFromContext"):
            return _make_user_item(encode_value(_render_command(message)))
        case "branchSummary":
            return _make_user_item(encode_value(BRANCH[0] + get_text(message, "summary") + BRANCH[1]))
        case "compactionSummary":
            return _make_user_item(encode_value(SUMMARY[0] + get_text(message, "summary") + SUMMARY[1]))
        case _:
            return None


def _render_content(content: bytes, block: Callable[[Row], bytes | None]) -> bytes | None:
    """Return content as blocks; a string is one block of text."""
    if isinstance(read_value(content), str):
        return join_list([make_text_part(content)])
    spans = split_list(content)
    if spans is None:
        return None
    rows = [parse_row(span) for span in spans]
    made = [block(row) if row is not None else None for row in rows]
    return join_list(span if new is None else new for span, new in zip(spans, made, strict=True))


def _render_result(content: bytes) -> bytes | None:
    """Return a tool's output: a string, or blocks if it has more than text."""
    rows = [parse_row(span) for span in split_list(content) or []]
    if not rows or not all(row is not None and get_text(row, "type") == "text" for row in rows):
        return _render_content(content, _render_block)
    spans = [row.get("text", b'""') for row in rows if row is not None]
    return spans[0] if len(spans) == 1 else encode_value("\n".join(str(read_value(span)) for span in spans))


def _render_block(row: Row) -> bytes | None:
    if get_text(row, "type") != "image" or "data" not in row:
        return None
    source = {"type": b'"base64"', "media_type": row.get("mimeType", b'"image/png"'), "data": row["data"]}
    return join_object({"type": b'"image"', "source": join_object(source)})


def _render_answer_block(row: Row) -> bytes | None:
    match get_text(row, "type"):
        case "thinking":
            signature = row.get("thinkingSignature", b'""')
            return join_object({"type": b'"thinking"', "thinking": row.get("thinking", b'""'), "signature": signature})
        case "toolCall":
            called = {"id": row.get("id", b'""'), "name": row.get("name", b'""'), "input": row.get("arguments", b"{}")}
            return join_object({"type": b'"tool_use"', **called})
        case _:
            return _render_block(row)


def _render_command(message: Row) -> str:
    """Render a command that a person ran, for the model."""
    output = get_text(message, "output")
    text = f"Ran `{get_text(message, 'command')}`\n" + (f"```\n{output}\n```" if output else "(no output)")
    code = get_number(message, "exitCode")
    if is_true(message, "cancelled"):
        text += "\n\n(command cancelled)"
    elif code:
        text += f"\n\nCommand exited with code {code}"
    if is_true(message, "truncated") and get_text(message, "fullOutputPath"):
        text += f"\n\n[Output truncated. Full output: {get_text(message, 'fullOutputPath')}]"
    return text


def _make_user_item(text: bytes) -> Item:
    return _make_item("user", join_list([make_text_part(text)]))


def _make_item(role: str, content: bytes) -> Item:
    return Item(join_object({"role": encode_value(role), "content": content}))
