"""The remote strategy: the provider compacts by itself, and a readable state stands beside what only it can read.

What the provider wrote is bound to it and to the account it was asked with; on any other it is left out of the window, and the
state beside it carries the thread on.
"""

from __future__ import annotations

from holdfast.compaction.asking import settled_part
from holdfast.compaction.drafting import Brief, Draft, DraftRefused, Voice
from holdfast.dialects import Request
from holdfast.items import Item, ItemKind, Role

NAME = "remote"


async def draft(brief: Brief, voice: Voice) -> Draft:
    """Return what the provider put in place of the settled part of the window.

    Raises:
        DraftRefused: The provider cannot, or gave nothing of its own.
        ModelError: It could not be asked.
    """
    if voice.compact is None or voice.dialect.name != brief.dialect.name:
        raise DraftRefused("not_offered")
    own = voice.own or Request(fields={}, head=(), items=())
    settled = [seen.entry.item for seen in settled_part(brief.window)]
    if not settled:
        raise DraftRefused("empty")
    request = Request(fields=own.fields, head=own.head, items=tuple(brief.dialect.arrange(settled)))
    made = await voice.compact(request)
    literals = tuple(item for item in made.items if _is_the_providers(brief, item))
    if not literals:
        raise DraftRefused("empty")
    return Draft(strategy=NAME, literals=literals, issuer=made.issuer)


def _is_the_providers(brief: Brief, item: Item) -> bool:
    """Whether the provider wrote an item; messages of others that it returned are history the thread already has."""
    view = brief.dialect.view(item)
    return view.kind is not ItemKind.MESSAGE or view.role is Role.ASSISTANT
