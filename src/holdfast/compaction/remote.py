"""The remote strategy: the provider compacts by itself, and a readable state stands beside what only it can read.

What the provider wrote is bound to it and to the account it was asked with; on any other it is left out of the window, and the
state beside it carries the thread on.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.compaction.asking import NotAsked, request_tokens, settled_part
from holdfast.compaction.drafting import Brief, Draft, DraftRefused, Voice
from holdfast.dialects import Request
from holdfast.dialects.spans import object_in
from holdfast.items import Item

NAME = "remote"
# How providers call what they write for themselves: an item of its own, or a block of an answer.
COMPACTIONS: Final = frozenset({"compaction", "context_compaction", "compaction_summary"})


async def draft(brief: Brief, voice: Voice) -> Draft:
    """Return what the provider put in place of the settled part of the window.

    Raises:
        NotAsked: The provider cannot, or has nothing to compact that it could take.
        DraftRefused: It gave nothing of its own.
        ModelError: It could not be asked.
    """
    if voice.compact is None or voice.dialect.name != brief.dialect.name:
        raise NotAsked("not_offered")
    own = voice.own or Request(fields={}, head=(), items=())
    settled = [seen.entry.item for seen in settled_part(brief.window_for(voice))]
    if not settled:
        raise NotAsked("empty")
    request = Request(fields=own.fields, head=own.head, items=tuple(brief.dialect.arrange(settled)))
    if request_tokens(request) > voice.window_tokens:
        raise NotAsked("too_large")
    made = await voice.compact(request)
    literals = tuple(sealed for item in made.items if (sealed := _sealed_part(item)) is not None)
    if not literals:
        raise DraftRefused("empty")
    return Draft(strategy=NAME, literals=literals, issuer=made.issuer)


def _sealed_part(item: Item) -> Item | None:
    """Return what of an item is the compaction itself; whatever was said or echoed beside it, the thread has or needs not."""
    fields = object_in(item.raw) or {}
    if fields.get("type") in COMPACTIONS:
        return item
    content = fields.get("content")
    blocks = content if isinstance(content, list) else []
    sealed = [block for block in blocks if isinstance(block, dict) and block.get("type") in COMPACTIONS]
    if not sealed:
        return None
    return item if len(sealed) == len(blocks) else Item(msgspec.json.encode({**fields, "content": sealed}))
