"""Checkpoints as resources: listed, read and addressed by a template."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import MCPError
from tests.histories import turns
from tests.mcp.sessions import ERAS, Mode, opened, over_stdio

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.parametrize("mode", ERAS)
async def test_checkpoints_are_listed_read_and_addressed(store: Path, mode: Mode) -> None:
    """The newest first, each a page with its figures, its audit and its state; undone ones are not there."""
    async with opened(store) as tk:
        thread = await tk.find("ship-it")
        undone = await thread.undo()
    async with over_stdio(store, mode=mode) as client:
        listed = (await client.list_resources()).resources
        assert len(listed) == 2
        assert [each.title for each in listed] == [f"Compaction at {each.name.partition('it')[2]} of ship-it" for each in listed]
        assert f"threadkeep://threads/ship-it/checkpoints/{undone}" not in [str(each.uri) for each in listed]
        (page,) = (await client.read_resource(str(listed[0].uri))).contents
        text = getattr(page, "text", "")
        assert text.startswith(f"# Compaction at {listed[0].name.partition('it')[2]} of ship-it\n")
        assert "> Move the service to the new cluster." in text.splitlines()
        assert "Audit: " in text
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "threadkeep://threads/{thread}/checkpoints/{ordinal}"
        first = template.uri_template.format(thread="ship-it", ordinal=listed[1].name.partition("#")[2])
        assert getattr((await client.read_resource(first)).contents[0], "text", "").startswith("# Compaction at ")


async def test_what_is_no_checkpoint_is_a_clear_error(store: Path) -> None:
    """An address of another kind, a record that is none, a thread that is not there, a cursor of someone else's."""
    async with over_stdio(store) as client:
        for uri, says in {
            "threadkeep://threads/ship-it/records/3": "is not the address of a checkpoint; write threadkeep://threads/",
            "file:///etc/passwd": "is not the address of a checkpoint",
            "threadkeep://threads/ship-it/checkpoints/3": "has no record #3",
            "threadkeep://threads/gone/checkpoints/3": "no thread 'gone'",
            "threadkeep://threads/ship-it%2F..%2F/checkpoints/3": "no thread 'ship-it/../'",
        }.items():
            with pytest.raises(MCPError, match=says):
                await client.read_resource(uri)
        with pytest.raises(MCPError, match="is not a cursor of this list"):
            await client.list_resources(cursor="elsewhere")


async def test_a_long_list_comes_in_pages(store: Path) -> None:
    """Each thread's checkpoints are on exactly one page."""
    async with opened(store) as tk:
        for number in range(24):
            thread = await tk.thread(f"t{number:02}")
            await thread.record(turns(1, 5))
            if number % 8 == 0:
                await thread.compact()
    async with over_stdio(store) as client:
        first = await client.list_resources()
        assert first.next_cursor is not None
        second = await client.list_resources(cursor=first.next_cursor)
        assert second.next_cursor is None
        names = [each.name.partition("#")[0] for page in (first, second) for each in page.resources]
    assert names == ["t16", "t08", "t00", "ship-it", "ship-it", "ship-it"]
