"""Sealed items: parts of answers that a provider encrypted or signed for one account; other accounts must not be sent them.

Records name the account that answers, so later sealed items are that account's. Items before any such record are taken to be
readable by whoever is asked now.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.dialects import Dialect
from threadkeep.llm.base import Model, ModelName, SealingModel
from threadkeep.store import ThreadStore
from threadkeep.threads import AskedBody, History, LivePath, Pointer, WindowEntry
from threadkeep.threads.pressure import NAMING, read_asked
from threadkeep.threads.reader import iterate_records, load_live_path

PAGE = 32
# A thread that never names an account is not read whole.
TURNS_AT_MOST = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """The model and account a window goes to, if known.

    Attributes:
        model: The model's name as a person or host writes it.
        issuer: The account it answers with.
    """

    model: str | None = None
    issuer: str | None = None

    def can_read(self, turn: AskedBody) -> bool:
        """Whether items sealed in a turn may go to this recipient, as far as both are known."""
        if self.issuer is not None and turn.issuer is not None:
            return self.issuer == turn.issuer
        if self.model is None or turn.model is None:
            return True
        return ModelName.parse(self.model).is_served_with(ModelName.parse(turn.model))


def find_account(model: Model) -> str | None:
    """Return the account a model answers with, if its provider seals items."""
    return model.issuer if isinstance(model, SealingModel) else None


async def drop_foreign_seals(
    reader: Recipient, history: History, *, store: ThreadStore, thread_id: str, dialect: Dialect
) -> History:
    """Return a window without the items sealed for others than `reader`."""
    own = history.drop_sealed(reader.issuer)
    foreign = await find_foreign_seals(reader, own, store=store, thread_id=thread_id, dialect=dialect)
    return own.replace_items(foreign, bare=dialect.remove_sealed) if foreign else own


async def find_foreign_seals(
    reader: Recipient, history: History, *, store: ThreadStore, thread_id: str, dialect: Dialect
) -> frozenset[Pointer]:
    """Return the records of a window with items sealed for others than `reader`. Reads the turns of sealed items."""
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
        if entry.source is not None and not entry.sealed and dialect.has_sealed(entry.item)
    }


async def _load_turns_since(store: ThreadStore, thread_id: str, *, oldest: int) -> list[tuple[int, AskedBody]]:
    """Return records that name a model or account, newest first, back to the turn of record `oldest`."""
    found: list[tuple[int, AskedBody]] = []
    # Records that a checkpoint kept are of turns before its cut, which only the whole path reaches.
    for whole in (False, True):
        found = await _load_named_turns(store, await load_live_path(store, thread_id, whole=whole), oldest=oldest)
        if found and found[-1][0] <= oldest:
            break
    return found


async def _load_named_turns(store: ThreadStore, path: LivePath, *, oldest: int) -> list[tuple[int, AskedBody]]:
    found: list[tuple[int, AskedBody]] = []
    left = TURNS_AT_MOST
    async for record in iterate_records(store, path.spans, kinds=NAMING, newest_first=True, page=PAGE):
        left -= 1
        if (asked := read_asked(record)) is not None:
            found.append((record.ordinal, asked))
        if left == 0 or (found and found[-1][0] <= oldest):
            break
    return found
