"""The mailbox on every store: durable, in order, once, whoever delivers from wherever."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.histories import answered, said, turns
from tests.parity.vocabulary import ResponsesSpeech
from tests.threads.agent import mail_item, recorded, run_turn
from tests.threads.conftest import Opens

from threadkeep import Config, Threadkeep
from threadkeep.store import RecordKind
from threadkeep.threads.mailbox import Delivery

pytestmark = pytest.mark.anyio

RESPONSES = ResponsesSpeech()
SENDER = Path(__file__).with_name("sender.py")


async def test_what_was_delivered_is_there_after_the_process_is_gone(opens: Opens) -> None:
    """Mail nobody heard waits in the store, in order, and starts the turn it asked for."""
    async with opens() as tk:
        thread = await tk.thread("t")
        await thread.deliver("first", sender="a", mail_id="1")
        await thread.deliver("second", sender="b", mail_id="2", way="trigger")
    async with opens() as tk:
        thread = await tk.thread("t")
        box = await thread.mail()
        assert ([(mail.id, mail.sender) for mail in box.pending], box.starts_turn) == ([("1", "a"), ("2", "b")], True)
        [request] = await run_turn(thread, RESPONSES, [], [answered("Both.")])
        assert [item["content"][0]["text"].splitlines()[1] for item in request] == ["first", "second"]
    async with opens() as tk:
        thread = await tk.thread("t")
        assert (await thread.mail()).pending == ()
        assert len(await recorded(thread)) == 3
        assert (await tk.verify()).problems == ()


async def test_the_same_id_is_delivered_once(opens: Opens) -> None:
    """Again at once, from another process, after it was heard, after a compaction and a rollback: it is known."""
    async with opens() as tk, opens() as other:
        thread = await tk.thread("t")
        first = await thread.deliver("hello", mail_id="m")
        again = Delivery(id="m", ordinal=first.ordinal, is_new=False)
        assert first == Delivery(id="m", ordinal=first.ordinal, is_new=True)
        assert await thread.deliver("hello", mail_id="m") == again
        assert await (await other.thread("t")).deliver("hello again", mail_id="m") == again
        await run_turn(thread, RESPONSES, [], [answered("Hi.")])
        await thread.record(turns(1, 6))
        await thread.compact()
        await thread.rollback(turns=7)
        assert await (await other.thread("t")).deliver("hello", mail_id="m") == again
        assert (await thread.mail()).pending == ()


async def test_many_deliver_at_once_and_every_one_arrives(opens: Opens) -> None:
    """Two openings of one store, forty deliveries with every id sent twice: forty mails, each sender's own in its order."""
    async with opens() as one, opens() as two:
        await one.thread("t")

        async def send(tk: Threadkeep, sender: int) -> None:
            thread = await tk.thread("t")
            for number in range(10):
                await thread.deliver(f"{number}", sender=f"s{sender}", mail_id=f"s{sender}:{number}")

        await asyncio.gather(*(send(tk, sender) for tk in (one, two) for sender in range(4)))
        pending = (await (await two.thread("t")).mail()).pending
        by_sender = {name: [mail.id for mail in pending if mail.sender == name] for name in ("s0", "s1", "s2", "s3")}
        assert by_sender == {f"s{sender}": [f"s{sender}:{number}" for number in range(10)] for sender in range(4)}
        assert [mail.ordinal for mail in pending] == sorted(mail.ordinal for mail in pending)


async def test_of_two_that_take_one_takes(opens: Opens) -> None:
    """Whoever loses looks again and finds nothing left; each mail is in the history once."""
    async with opens() as one, opens() as two:
        await (await one.thread("t")).record([said("Go.")])
        handles = [await one.thread("t"), await two.thread("t")]
        for number in range(5):
            await handles[0].deliver(f"{number}", mail_id=f"{number}")
        taken = await asyncio.gather(*(thread.take_mail(lambda box: box.pending) for thread in handles))
        assert sorted(mail.id for mails in taken for mail in mails) == ["0", "1", "2", "3", "4"]
        letters = [mail_item(RESPONSES, f"{number}") for number in range(5)]
        assert await recorded(handles[0]) == [said("Go."), *letters]


async def test_where_nothing_waits_and_nobody_asks_no_turn_begins_or_ends(opens: Opens) -> None:
    """Whoever comes second to mail another has answered leaves no trace."""
    async with opens() as one, opens() as two:
        mine, other = await one.thread("t"), await two.thread("t")
        await mine.deliver("Do it.", way="trigger")
        await run_turn(mine, RESPONSES, [], [answered("Done.")])
        before = await mine.records()
        async with other.turn([]) as idle:
            assert not await idle.goes_on()
            assert (await idle.window())[-1] == answered("Done.")
        assert await mine.records() == before


async def test_every_item_points_at_the_mail_it_came_in(opens: Opens) -> None:
    """The record of what was heard names the record of what was sent."""
    async with opens() as tk:
        thread = await tk.thread("t")
        sent = [await thread.deliver("one"), await thread.deliver([said("two"), said("three")], way="steer")]
        await run_turn(thread, RESPONSES, [], [answered("Yes.")])
        heard = [record.target for record in await thread.records() if record.kind is RecordKind.ITEM]
        assert heard == [sent[0].ordinal, sent[1].ordinal, sent[1].ordinal, None]


async def test_a_rollback_takes_back_what_was_heard_and_never_what_waits(opens: Opens) -> None:
    """A fork is somebody else: it has the history, and none of the mail."""
    async with opens() as tk:
        thread = await tk.thread("t")
        await run_turn(thread, RESPONSES, [said("Go.")], [answered("Done.")])
        await thread.deliver("waits", mail_id="w")
        child = await thread.fork()
        await thread.rollback(turns=1)
        assert [mail.id for mail in (await thread.mail()).pending] == ["w"]
        assert (await child.mail()).pending == ()
        [request] = await run_turn(thread, RESPONSES, [], [answered("Now.")])
        assert request == [mail_item(RESPONSES, "waits")]


async def test_a_long_mailbox_is_read_back_no_further_than_the_last_turn(opens: Opens) -> None:
    """What was taken long ago is found by its id and is not read to know what waits."""
    async with opens() as tk:
        thread = await tk.thread("t")
        for number in range(150):
            await thread.deliver(f"{number}", mail_id=f"{number}")
        await run_turn(thread, RESPONSES, [], [answered("All.")])
        await thread.deliver("new", mail_id="new")
        fresh = await tk.thread("t")
        assert [mail.id for mail in (await fresh.mail()).pending] == ["new"]
        assert (await fresh.deliver("0", mail_id="0")).is_new is False


async def test_secrets_are_left_out_before_mail_is_written(tmp_path: Path) -> None:
    """What the host redacts of items it redacts of mail."""
    location = tmp_path / "threads.db"
    async with Threadkeep(Config(store=str(location)), redact=lambda raw: raw.replace(b"hunter2", b"*******")) as tk:
        thread = await tk.thread("t")
        await thread.deliver("the password is hunter2")
        await thread.spawn("log in with hunter2", new_id="child")
        await run_turn(thread, RESPONSES, [], [answered("ok")])
        assert (await tk.verify()).problems == ()
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert (b"hunter2" in kept, b"*******" in kept) == (False, True)


@pytest.mark.slow
async def test_other_processes_deliver_while_a_turn_runs(store_file: Path) -> None:
    """Three processes send to one thread whose turn goes on recording: nothing is lost, nothing comes twice, order is kept."""
    async with Threadkeep(Config(store=str(store_file))) as tk:
        thread = await tk.thread("t")
        senders = [
            await asyncio.create_subprocess_exec(sys.executable, str(SENDER), str(store_file), f"p{number}", "20")
            for number in range(3)
        ]
        ended = asyncio.gather(*(process.wait() for process in senders))
        async with thread.turn([said("Go.")]) as turn:
            await turn.window()
            number = 0
            while not ended.done() or (await thread.mail()).pending:
                number += 1
                await turn.record([{**answered(f"step {number}"), "phase": "commentary"}])
                await turn.window()
        assert await ended == [0, 0, 0]
        letters = [str(item) for item in await recorded(thread) if "agent-message" in str(item)]
        for sender in ("p0", "p1", "p2"):
            own = [text for text in letters if f'from="{sender}"' in text]
            assert [text.split("\\n")[1] for text in own] == [f"{sender} says {each}" for each in range(20)]
        assert (await tk.verify()).problems == ()
