"""An answer written down beside a thread that follows its host."""

from __future__ import annotations

from typing import Any

import pytest

from threadkeep import Threadkeep
from threadkeep.adapters.host_history import follow, record_reply
from threadkeep.errors import InvalidItem, ThreadNotFound
from threadkeep.store import RecordKind
from threadkeep.threads import ReplyBody, decode_body

pytestmark = pytest.mark.anyio

ASKED = {"role": "user", "content": "How large is it?"}
ANSWER = {"role": "assistant", "content": "Very."}


async def test_an_answer_is_kept_and_counted_and_not_yet_part_of_the_window(tk: Threadkeep) -> None:
    """The window ends with the question; pressure is corrected by what the provider counted; the answer can be read."""
    thread = await follow(tk, "t", "chat", [ASKED])
    before = await thread.window()
    await record_reply(tk, "t", [ANSWER], estimated_tokens=before.tokens, input_tokens=3 * before.tokens, output_tokens=5)
    after = await thread.window()
    assert list(after) == [ASKED]
    assert after.pressure.tokens == 3 * before.tokens
    (record,) = [record for record in await thread.records() if record.kind is RecordKind.REPLY]
    assert [bytes(item) for item in decode_body(record.body, ReplyBody).items] == [thread.dialect.parse(ANSWER).raw]
    assert record.turn == 1


async def test_the_host_s_own_word_for_the_answer_is_what_counts(tk: Threadkeep) -> None:
    """Once the host shows it, however it spells it, the answer is history, once."""
    await follow(tk, "t", "chat", [ASKED])
    await record_reply(tk, "t", [ANSWER], estimated_tokens=1, input_tokens=None, output_tokens=None)
    shown: list[dict[str, Any]] = [ASKED, {**ANSWER, "refusal": None}, {"role": "user", "content": "Really?"}]
    thread = await follow(tk, "t", "chat", shown)
    assert list(await thread.window()) == shown


async def test_bad_input_is_refused(tk: Threadkeep) -> None:
    """A thread that is not there, and what is no item of its language."""
    with pytest.raises(ThreadNotFound):
        await record_reply(tk, "t", [ANSWER], estimated_tokens=1, input_tokens=1, output_tokens=1)
    await follow(tk, "t", "chat", [ASKED])
    with pytest.raises(InvalidItem):
        await record_reply(tk, "t", [{"role": {1}}], estimated_tokens=1, input_tokens=1, output_tokens=1)
