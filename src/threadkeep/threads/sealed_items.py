"""Who sealed what stands in a window, and whom it may go to.

A provider encrypts or signs parts of its answers for the account it answered; any other refuses a request that holds them. A
turn says whom it asks, and so does who goes on with it, so what was answered since is that account's. What stands before anybody
said whom they ask is taken to be whoever's is asked now.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.dialects import Dialect
from threadkeep.dialects.base import has_sealed
from threadkeep.llm.base import Model, ModelName, SealingModel
from threadkeep.store import Span, ThreadStore
from threadkeep.threads import AskedBody, History, LivePath, Pointer, WindowEntry
from threadkeep.threads.pressure import NAMING, read_asked
from threadkeep.threads.reader import load_live_path

PAGE = 32
# A thread whose turns say nothing about whom they ask is not read whole for it.
TURNS_AT_MOST = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Whom a window goes to.

    Attributes:
        model: As a person, or a host, writes it; None where nobody says.
        issuer: The account it answers with, where that is known.
    """

    model: str | None = None
    issuer: str | None = None

    def can_read(self, turn: AskedBody) -> bool:
        """Whether what was sealed in a turn may go to this one, as far as both say who they are."""
        if self.issuer is not None and turn.issuer is not None:
            return self.issuer == turn.issuer
        if self.model is None or turn.model is None:
            return True
        return ModelName.parse(self.model).is_served_with(ModelName.parse(turn.model))


def find_account(model: Model) -> str | None:
    """Return the account a model answers with, where its provider seals items that only that account can read."""
    return model.issuer if isinstance(model, SealingModel) else None


async def drop_foreign_seals(
    reader: Recipient, history: History, *, store: ThreadStore, thread_id: str, dialect: Dialect
) -> History:
    """Return a window as it may go to `reader`: without what providers sealed for anybody else."""
    own = history.drop_sealed(reader.issuer)
    foreign = await find_foreign_seals(reader, own, store=store, thread_id=thread_id, dialect=dialect)
    return own.replace_items(foreign, bare=dialect.remove_sealed) if foreign else own


async def find_foreign_seals(
    reader: Recipient, history: History, *, store: ThreadStore, thread_id: str, dialect: Dialect
) -> frozenset[Pointer]:
    """Return the records of a window that hold what another than `reader` sealed. Costs the turns they are of."""
    if reader.model is None and reader.issuer is None:
        return frozenset()
    sealed = _find_sealed(history, dialect)
    if not sealed:
        return frozenset()
    turns = await _load_turns_since(store, thread_id, oldest=min(sealed))
    return frozenset(
        place
        for ordinal, entry in sealed.items()
        if (place := entry.source) is not None
        and (turn := next((body for at, body in turns if at <= ordinal), None)) is not None
        and not reader.can_read(turn)
    )


def _find_sealed(history: History, dialect: Dialect) -> dict[int, WindowEntry]:
    return {
        entry.source.ordinal: entry
        for entry in history.entries
        if entry.source is not None and not entry.sealed and has_sealed(entry.item, dialect)
    }


async def _load_turns_since(store: ThreadStore, thread_id: str, *, oldest: int) -> list[tuple[int, AskedBody]]:
    """Return the turns that name whom they ask, newest first, back to the one that `oldest` is of."""
    found: list[tuple[int, AskedBody]] = []
    # What a checkpoint kept is of a turn before its cut, where the short path does not reach.
    for whole in (False, True):
        found = await _load_named_turns(store, await load_live_path(store, thread_id, whole=whole), oldest=oldest)
        if found and found[-1][0] <= oldest:
            break
    return found


async def _load_named_turns(store: ThreadStore, path: LivePath, *, oldest: int) -> list[tuple[int, AskedBody]]:
    found: list[tuple[int, AskedBody]] = []
    left = TURNS_AT_MOST
    for span in path.spans:
        stop = span.stop
        while left > 0 and (
            page := await store.read(
                Span(thread_id=span.thread_id, start=span.start, stop=stop),
                kinds=NAMING,
                newest_first=True,
                limit=PAGE,
            )
        ):
            found += [(record.ordinal, asked) for record in page if (asked := read_asked(record)) is not None]
            stop, left = page[-1].ordinal, left - len(page)
            if found and found[-1][0] <= oldest:
                return found
    return found
