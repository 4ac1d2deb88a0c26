"""What a model must have been sent: the thread's window as it stood before each of the model's answers, from records alone."""

from __future__ import annotations

from threadkeep import Thread, Threadkeep
from threadkeep.items import Item, Role
from threadkeep.store import RecordKind
from threadkeep.threads.reader import load_history, load_live_path
from threadkeep.threads.window import close_open_calls


async def windows_before_answers(tk: Threadkeep, thread: Thread, *, joined: bool = True) -> list[list[Item]]:
    """Return a window for every answer of the model, in order; an answer is what it says in a row, calls included.

    `joined` has neighbours of one role in one message, as servers want them that insist on it; some hosts see to that themselves.
    """
    windows: list[list[Item]] = []
    speaking = False
    for record in await thread.records():
        if record.kind is not RecordKind.ITEM:
            continue
        by_model = thread.dialect.view(Item(record.body)).role is Role.ASSISTANT
        if by_model and not speaking:
            store = tk.backend.store
            history = await load_history(store, await load_live_path(store, thread.id, stop=record.ordinal))
            items = close_open_calls(history.items, dialect=thread.dialect, under_way=True)
            windows.append(list(thread.dialect.arrange(items) if joined else items))
        speaking = by_model
    return windows
