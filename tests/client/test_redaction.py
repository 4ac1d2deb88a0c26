"""What is written is what the hook leaves; what was received is still recognised."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.histories import answered, said, turns

from threadkeep import Config, Threadkeep
from threadkeep.store import RecordKind
from threadkeep.threads.writer import compute_chain, find_deepest

pytestmark = pytest.mark.anyio

SECRET = "hunter2-hunter2"


def hide(raw: bytes) -> bytes:
    return raw.replace(SECRET.encode(), b"[hidden]")


async def test_what_the_hook_hides_reaches_no_file(tmp_path: Path) -> None:
    """Neither item, preview nor checkpoint holds it, and the rest is byte for byte what came."""
    path = tmp_path / "threads.db"
    async with Threadkeep(Config(store=str(path), model_context_window=4_000), redact=hide) as tk:
        thread = await tk.thread("t")
        await thread.record([said(f"The password is {SECRET}."), answered("Noted."), *turns(1, 5)])
        await thread.compact()
        window = list(await thread.window())
        verdict = await tk.verify()
    assert "[hidden]" in str(window)
    assert all(SECRET.encode() not in file.read_bytes() for file in tmp_path.iterdir())
    assert verdict.ok


async def test_a_redacted_history_is_found_by_what_the_client_resends(tmp_path: Path) -> None:
    """Its chain is over what was received; the record says that it was changed."""
    async with Threadkeep(Config(store=str(tmp_path / "threads.db")), redact=hide) as tk:
        thread = await tk.thread("t")
        sent = [said(f"The password is {SECRET}."), answered("Noted.")]
        await thread.record(sent)
        chain = compute_chain(tk.backend, thread.dialect, [thread.dialect.parse(item) for item in sent])
        found = await find_deepest(tk.backend.store, chain)
        redacted = [record.redacted for record in await thread.records() if record.kind is RecordKind.ITEM]
    assert [(match.thread_id, match.depth) for match in found] == [("t", 2)]
    assert redacted == [True, False]


async def test_a_limited_store_keeps_figures_of_answers_and_not_their_items(tmp_path: Path) -> None:
    """What the client echoes is history anyway; the estimates still learn."""
    config = Config(store=str(tmp_path / "threads.db"), persistence="limited", model_context_window=4_000)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t")
        await thread.record(turns(1, 2))
        before = (await thread.window()).tokens
        await thread.record_usage(input_tokens=2 * before, output_tokens=5)
        assert (await thread.window()).pressure.tokens == 2 * before


async def test_a_store_in_memory_is_a_store_until_it_is_closed() -> None:
    """The same threads, compactions and checks, and nothing on disk."""
    async with Threadkeep(Config(store="memory:", model_context_window=4_000)) as tk:
        thread = await tk.thread("t")
        await thread.record([said("Never push to main."), *turns(1, 6)])
        report = await thread.compact()
        assert report.tokens_after < report.tokens_before
        assert [hit.text for hit in await thread.recall("push to main")][:1] == ["Never push to main."]
        assert (await tk.verify()).ok


async def test_an_original_comes_back_whole_by_its_pointer(tmp_path: Path) -> None:
    """An image that fell out of the window can be shown to the model again."""
    picture = {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "The layout I want."},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
        ],
    }
    async with Threadkeep(Config(store=str(tmp_path / "threads.db"), model_context_window=4_000)) as tk:
        thread = await tk.thread("t")
        await thread.record([picture, answered("I see."), *turns(1, 6)])
        await thread.compact(target="30%")
        assert "image: The layout I want. (#2)" in str(list(await thread.window()))
        assert await thread.original("#2") == picture
