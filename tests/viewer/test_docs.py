"""The walk that docs/viewer.md shows: what did compaction 3 lose?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.viewer.browser_pages import REPOSITORY, visiting
from tests.viewer.conftest import Serve, compaction_ordinals

from threadkeep import Threadkeep
from threadkeep.cli.parser import parse
from threadkeep.viewer.compaction_reader import check_originals, open_compaction

PAGE = REPOSITORY / "docs" / "viewer.md"


@pytest.mark.anyio
@pytest.mark.browser
async def test_three_clicks_tell_what_compaction_3_lost(served: Serve, work: Threadkeep) -> None:
    """The thread, the compaction, what left: then the very items are on the screen, each linked to its record."""
    third = (await compaction_ordinals(work, await work.find("billing")))[2]
    async with served() as url, visiting(url) as visit:
        page = visit.page
        await visit.shot("walk-0-threads")
        await page.click("text=Move the billing service")
        await page.wait_for_selector("#chart[data-drawn]")
        await visit.shot("walk-1-thread")
        await page.click("text=Compaction 3")
        await page.wait_for_url(f"**/c/{third}")
        verdict = await page.inner_text(".verdict")
        items = (await check_originals(work.backend.store, await open_compaction(work.backend.store, "billing", third))).items
        assert f"nothing: all {items} items it replaced can be read back" in verdict
        await visit.shot("walk-2-compaction")
        await page.click(".verdict a >> text=items")
        await page.wait_for_url("**fate=left*")
        left = await page.locator(".sides tr.left").count()
        assert left > 0
        assert await page.locator(".sides tr.left a.pointer").count() == left
        assert f"{left} items" in verdict
        await visit.shot("walk-3-what-left")


def test_the_commands_of_the_page_are_understood() -> None:
    """Each is one the command line takes as it stands there."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line.split("#")[0].split() for block in blocks for line in block.splitlines()]
    assert [parse(words[1:]).command for words in lines] == ["view", "view", "serve"]


def test_the_page_shows_pictures_that_are_there() -> None:
    """Every picture of docs/viewer.md lies beside it, and none lies there unused."""
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"\]\(viewer/([\w-]+\.png)\)", text))
    assert named == {path.name for path in (PAGE.parent / "viewer").iterdir()}
    assert all(Path(PAGE.parent / "viewer" / name).stat().st_size < 250_000 for name in named)
