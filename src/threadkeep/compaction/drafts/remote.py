"""The remote strategy: the provider compacts by itself, and the window holds its item and a readable state.

Only the provider and the account of the request can read the item; requests to others get the state alone.
"""

from __future__ import annotations

from threadkeep.compaction.drafts.draft import Brief, Draft, DraftRefused, Summariser
from threadkeep.compaction.drafts.inline import split_inline
from threadkeep.compaction.drafts.requests import OVER_BUDGET, NotAsked, estimate_request, select_settled
from threadkeep.dialects import Request
from threadkeep.items import Item

NAME = "remote"


def find_adopted(written: Item, *, issuer: str) -> Draft:
    """Return the draft that a provider wrote by itself in a reply to `issuer`; see `inline`."""
    return Draft(strategy=NAME, literals=(written,), issuer=issuer)


async def draft(brief: Brief, summariser: Summariser) -> Draft:
    """Return the provider's replacement for the settled part of the window.

    Raises:
        NotAsked: The provider cannot compact, or the settled part is empty or too large.
        DraftRefused: The reply holds no compaction.
        ModelError: The request failed.
    """
    if summariser.compact is None or summariser.dialect.name != brief.dialect.name:
        raise NotAsked("not_offered")
    own = summariser.own or Request(fields={}, head=(), items=())
    settled = [seen.entry.item for seen in select_settled(brief.window_for(summariser))]
    if not settled:
        raise NotAsked("empty")
    request = Request(fields=own.fields, head=own.head, items=tuple(brief.dialect.arrange(settled)))
    size = estimate_request(request)
    if size > summariser.window_tokens:
        raise NotAsked("too_large")
    if not summariser.may_read(size):
        raise NotAsked(OVER_BUDGET)
    made = await summariser.compact(request)
    # Other items of the reply are not needed.
    literals = tuple(written for item in made.items if (written := split_inline(item).written) is not None)
    if not literals:
        raise DraftRefused("empty")
    return Draft(strategy=NAME, literals=literals, issuer=made.issuer)
