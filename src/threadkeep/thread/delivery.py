"""Which mail joins a turn, and when: decisions over a mailbox and a turn's progress, nothing else.

`opened_at` is the ordinal a turn began at: mail below it waited before the turn did, and counts as part of its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from threadkeep.items import Item, View
from threadkeep.store import NewRecord, RecordKind
from threadkeep.thread.mailbox import Mail, Mailbox, Way
from threadkeep.thread.phases import Phase, Progress
from threadkeep.thread.records import TakenBody, TurnBody, encode_body
from threadkeep.thread.turns import PREVIEW_CHARS, Arrival, Tip, lay_down

ELEMENT = "agent-message"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A turn as its mailbox sees it.

    Attributes:
        input_unheard: A person's input opened it and the model was not asked yet; that input is answered first.
        compacted: A compaction made room for the request at hand.
    """

    progress: Progress
    opened_at: int
    input_unheard: bool = False
    compacted: bool = False


def joining(box: Mailbox, turn: Standing) -> tuple[Mail, ...]:
    """Return the mail that joins the turn with the request that is about to be made, oldest first.

    None with the first request of a person's turn, and none with the request right after a compaction while the model has
    outputs to go on with. After the answer, only what opens the turn again brings in what waits.
    """
    if turn.input_unheard or (turn.compacted and turn.progress.called):
        return ()
    if turn.progress.phase is Phase.NEXT_TURN and not any(_reopens(mail, turn) for mail in box.pending):
        return ()
    return box.pending


def goes_on(box: Mailbox, turn: Standing) -> bool:
    """Whether the turn has another request to make: the model called, or something waits that may still be heard."""
    if turn.progress.called or any(_reopens(mail, turn) for mail in box.pending):
        return True
    return turn.progress.phase is Phase.CURRENT_TURN and bool(box.pending)


def breaks(box: Mailbox, turn: Standing) -> bool:
    """Whether the answer is to be broken off now, because an agent's mail waits and only thoughts were recorded last.

    A person who steers waits for the whole answer and what its calls return.
    """
    return turn.progress.may_break and any(mail.way is not Way.STEER for mail in box.pending)


def left_over(box: Mailbox, turn: Standing) -> tuple[Mail, ...]:
    """Return the mail that goes into the history as the turn closes: what waited when it opened and asks for no turn."""
    left: list[Mail] = []
    for mail in box.pending:
        if mail.way is not Way.QUEUE or mail.ordinal >= turn.opened_at:
            break
        left.append(mail)
    return tuple(left)


def _reopens(mail: Mail, turn: Standing) -> bool:
    return mail.way is Way.STEER or (mail.way is Way.TRIGGER and mail.ordinal < turn.opened_at)


def take(tip: Tip, mails: Sequence[Mail], arrivals: Sequence[Arrival], *, key: bytes, at_ms: int) -> tuple[list[NewRecord], Tip]:
    """Return the records that put `mails` into the turn under way, `arrivals` being their items in order, and the tip after.

    Each item points at the mail it came in; the last record says that all of them were taken. One append of them is what makes
    it once: either all is there or nothing.
    """
    sources = [mail.ordinal for mail in mails for _ in mail.items]
    laid, after = lay_down(tip, arrivals, key=key, at_ms=at_ms)
    # A person who steers speaks within the turn; it is still the same turn.
    items = [record for record in laid if record.kind is not RecordKind.TURN]
    records = [replace(record, turn=tip.turn, target=source) for record, source in zip(items, sources, strict=True)]
    body = encode_body(TakenBody(upto=mails[-1].ordinal + 1))
    records.append(NewRecord(kind=RecordKind.MAIL, at_ms=at_ms, turn=tip.turn, tokens=0, body=body))
    return records, replace(after, turn=tip.turn, next=tip.next + len(records))


def turn_by_mail(
    tip: Tip, mails: Sequence[Mail], views: Sequence[View], *, at_ms: int, model: str | None, issuer: str | None
) -> NewRecord:
    """Return the record that opens a turn no person asked for."""
    senders = ", ".join(dict.fromkeys(mail.sender for mail in mails if mail.sender))
    text = next((view.text for view in views if view.text.strip()), "")
    preview = " ".join(f"{senders}: {text}".split() if senders else text.split())[:PREVIEW_CHARS]
    body = encode_body(TurnBody(preview=preview, model=model, issuer=issuer, opened_by="mail"))
    return NewRecord(kind=RecordKind.TURN, at_ms=at_ms, turn=tip.turn + 1, tokens=0, body=body)


def letter(text: str, *, sender: str, way: Way, answers: str = "") -> str:
    """Return what a model reads of an agent's mail: an element of the host's, so that nobody takes it for a person's words.

    What the text holds stays within it: the element's own end is spelled apart.
    """
    kind = "final_answer" if answers else "new_task" if way is Way.TRIGGER else "message"
    inner = text.replace(f"</{ELEMENT}", f"<\\/{ELEMENT}")
    about = f' about="{escape(answers)}"' if answers else ""
    return f'<{ELEMENT} from="{escape(sender)}" type="{kind}"{about}>\n{inner}\n</{ELEMENT}>'


def is_task(text: str) -> bool:
    """Whether a text is an agent's mail that asks for work, as `letter` writes it."""
    return text.startswith(f"<{ELEMENT} ") and ' type="new_task"' in text.partition(">")[0]


def items_of(mails: Sequence[Mail]) -> list[Item]:
    """Return what mails become in the history, in order."""
    return [item for mail in mails for item in mail.items]
