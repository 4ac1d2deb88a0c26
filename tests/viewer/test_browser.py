"""The viewer in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conftest import ManualClock
from tests.histories import answered, said
from tests.viewer.browser_pages import PHONE, WIDE, axe_source, visiting
from tests.viewer.conftest import Serve, compaction_ordinals
from tests.viewer.stories import STEPS, hostile, long_thread

from threadkeep import Threadkeep
from threadkeep.memory.memory import Memories
from threadkeep.viewer.timeline import MOST_FOLLOWED

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

SIDES = ("", "/timeline", "/state", "/window", "/find?q=port", "/r/2")


async def drawn(page: Page) -> None:
    """Wait until the plot is there."""
    await page.wait_for_selector("#chart[data-drawn]")


async def test_a_thread_is_found_opened_and_expanded(served: Serve) -> None:
    """Search, a click on the thread, a click on its timeline, a click on a line: the words are there."""
    async with served() as url, visiting(url) as visit:
        page = visit.page
        await page.fill("#q", "billing service")
        await page.press("#q", "Enter")
        await page.click("text=Move the billing service")
        await drawn(page)
        await page.click("nav >> text=Timeline")
        line = page.locator("#r35")
        await line.locator("summary").click()
        text = line.locator("pre.text")
        await text.wait_for()
        assert await text.inner_text() == STEPS[4][0]
        await visit.shot("timeline")


async def test_compactions_are_opened_and_compared(served: Serve, work: Threadkeep) -> None:
    """The plot leads to one, keys lead on, and another one to compare with is chosen without a button."""
    third = (await compaction_ordinals(work, await work.find("billing")))[2]
    async with served() as url, visiting(url) as visit:
        page = visit.page
        await visit.go("/ui/t/billing")
        await drawn(page)
        await page.click("text=Compaction 2")
        await page.wait_for_selector("h2:has-text('Compaction 2')")
        await page.keyboard.press("n")
        await page.wait_for_url(f"**/c/{third}")
        assert await page.locator("#g-superseded").count() == 0
        await page.select_option("select[name=from]", label="compaction 1 (#25)")
        await page.wait_for_url("**from=25*")
        assert "Staging listens on port 4610." in await page.locator("#g-superseded").inner_text()
        await visit.shot("compare", whole=True)


async def test_pages_follow_an_agent_at_work(served: Serve, work: Threadkeep) -> None:
    """What is recorded meanwhile appears: a line in the timeline, a compaction in the table, a point in the plot, a thread."""
    thread = await work.find("billing")
    async with served() as url, visiting(url) as visit:
        page = visit.page
        await visit.go("/ui/t/billing/timeline")
        await page.wait_for_selector("#live:not([hidden])")
        await page.locator("#r35 summary").click()
        await thread.record([said("While you look: use tabs."), answered("Tabs it is.")])
        await page.locator(".record", has_text="While you look: use tabs.").last.wait_for()
        assert await page.locator("#r35 details[open]").count() == 1
        await visit.go("/ui/t/billing")
        await drawn(page)
        before = await page.get_attribute("#chart", "data-drawn")
        await thread.compact()
        await page.wait_for_selector("#compactions >> text=Compaction 4")
        await page.wait_for_selector(f"#chart[data-drawn]:not([data-drawn='{before}'])")
        await visit.go("/ui/")
        await page.wait_for_selector("#live:not([hidden])")
        await (await work.thread("newcomer")).record([said("A new piece of work.")])
        await page.wait_for_selector("text=A new piece of work.")


async def test_a_followed_timeline_has_no_hole_and_no_stale_line(served: Serve, work: Threadkeep) -> None:
    """Many items at once, a rollback, hundreds at once: every ordinal is there, opened lines stay open, none is unmarked."""
    thread = await work.find("billing")
    ordinals = "[...document.querySelectorAll('#records > li')].map(line => Number(line.id.slice(1)))"
    gone = "[...document.querySelectorAll('#records > li.gone')].map(line => Number(line.id.slice(1)))"
    async with served() as url, visiting(url) as visit:
        page = visit.page
        await visit.go("/ui/t/billing/timeline")
        await page.wait_for_selector("#live:not([hidden])")
        first = (await page.evaluate(ordinals))[0]
        await page.locator("#r99 summary").click()
        await page.wait_for_selector("#r99 details[open] pre.text")
        await thread.record([said(f"Burst {number}.") for number in range(60)])
        last = (await work.backend.store.get("billing")).next - 1
        await page.wait_for_selector(f"#r{last}")
        assert await page.evaluate(ordinals) == list(range(first, last + 1))
        assert await page.locator("#r99 details[open] pre.text").count() == 1
        taken_back = (await thread.rollback(turns=30)).at
        await page.wait_for_selector(f"#r{last}.gone")
        assert await page.evaluate(gone) == list(range(taken_back, last + 1))
        await thread.record([said(f"Flood {number}.") for number in range(400)])
        last = (await work.backend.store.get("billing")).next - 1
        await page.wait_for_selector(f"#r{last}")
        assert await page.evaluate(ordinals) == list(range(last - MOST_FOLLOWED + 1, last + 1))
        assert await page.locator(f"#pages a[rel=prev][href$='before={last - MOST_FOLLOWED + 1}']").count() == 1


async def test_a_note_is_written(served: Serve) -> None:
    """Through the form, and it stands in the timeline."""
    async with served(allow_changes=True) as url, visiting(url) as visit:
        page = visit.page
        await visit.go("/ui/t/billing")
        await page.fill("textarea[name=text]", "The auditors looked at turn 3 & were <content>.")
        await page.click("text=Write the note")
        await page.wait_for_selector(".notice:has-text('Noted')")
        await visit.go("/ui/t/billing/timeline?side=changes")
        assert "The auditors looked at turn 3 & were <content>." in await page.inner_text("#records")


async def test_an_entry_is_pinned_by_keyboard_and_survives_the_next_compaction(served: Serve, work: Threadkeep) -> None:
    """The state, a key to the first entry, Enter: it is pinned, and stays through a compaction with hardly any budget."""
    thread = await work.find("billing")
    first = (await thread.state()).entries[0]
    async with served(allow_changes=True) as url, visiting(url) as visit:
        page = visit.page
        await visit.go("/ui/t/billing")
        await page.keyboard.press("g")
        await page.keyboard.press("s")
        await page.wait_for_url("**/state")
        await page.keyboard.press("j")
        assert await page.evaluate("document.activeElement.textContent") == f"Pin entry {first.id}"
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".notice:has-text('Pinned')")
        entry = page.locator(f"#entry-{first.id}")
        assert await entry.locator(".tag.pin").inner_text() == "pinned"
        await visit.shot("pinned")
        await thread.compact(target="1%")
        await visit.go("/ui/t/billing/state")
        assert await page.locator(".entry.pinned .said").all_inner_texts() == [first.text]
        await page.locator(".entry.pinned button").click()
        await page.wait_for_selector(".notice:has-text('no longer pinned')")
        assert await page.locator(".tag.pin").count() == 0
    assert [each.text for each in (await thread.state()).entries if each.pinned] == []


async def test_a_hostile_transcript_stays_text(served: Serve, work: Threadkeep) -> None:
    """Nothing it says runs, on any page; what it wrote is there to be read."""
    thread = await hostile(work)
    (made,) = await compaction_ordinals(work, thread)
    async with served(allow_changes=True) as url, visiting(url) as visit:
        page = visit.page
        await visit.go("/ui/")
        assert "<script>window.broken = 1</script>" in await page.inner_text("#threads")
        for side in (*SIDES, f"/c/{made}"):
            await visit.go(f"/ui/t/hostile{side}")
            assert await page.evaluate("typeof window.broken") == "undefined"
        await visit.go("/ui/t/hostile/timeline")
        await page.locator("#r4 summary").click()
        await page.locator("#r4 pre.text").wait_for()
        assert await page.evaluate("typeof window.broken") == "undefined"
        assert "<img src=x onerror" in await page.inner_text("#r4 pre.text")
        await visit.shot("hostile")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
async def test_every_page_is_accessible(
    served: Serve, work: Threadkeep, clock: ManualClock, size: tuple[int, int], *, dark: bool
) -> None:
    """axe finds nothing, on wide screens and narrow ones, in the light and in the dark."""
    source = await axe_source()
    second = (await compaction_ordinals(work, await work.find("billing")))[1]
    paths = ["/ui/", "/ui/?q=port", "/ui/memory", "/ui/nowhere", *(f"/ui/t/billing{side}" for side in (*SIDES, f"/c/{second}"))]
    found: dict[str, list[str]] = {}
    clock.ms += 24 * 3_600_000
    await Memories(work.backend).run()
    async with served(allow_changes=True) as url, visiting(url, size=size, dark=dark) as visit:
        for path in paths:
            await visit.go(path)
            if path == "/ui/t/billing":
                await drawn(visit.page)
            await visit.page.evaluate(source)
            violations = await visit.page.evaluate("axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes[0].html))")
            if violations:
                found[path] = violations
        visit.wrong[:] = [told for told in visit.wrong if "404" not in told]
    assert found == {}


async def test_a_hundred_thousand_records_are_a_page_of_lines(served: Serve, work: Threadkeep) -> None:
    """The end, the beginning and the middle are each one page of lines; the plot is drawn from a few points."""
    thread = await long_thread(work, records=100_000)
    last = (await work.backend.store.get(thread.id)).next - 1
    async with served() as url, visiting(url) as visit:
        page = visit.page
        await visit.go("/ui/t/long/timeline")
        assert await page.locator("#records > li").count() == 100
        assert await page.locator(f"#r{last}").count() == 1
        await page.keyboard.press("p")
        await page.wait_for_url("**before=*")
        assert await page.locator(f"#r{last - 100}").count() == 1
        await page.click("text=⇤ first >> nth=0")
        await page.wait_for_selector("#r0")
        await page.fill("input[name=at]", "50000")
        await page.press("input[name=at]", "Enter")
        await page.wait_for_selector("#r50000")
        assert await page.evaluate("document.querySelectorAll('*').length") < 2_000
        await visit.go("/ui/t/long")
        await drawn(page)
        await visit.shot("hundred-thousand")


async def test_a_phone_shows_everything_without_scrolling_sideways(served: Serve, work: Threadkeep) -> None:
    """No page is wider than the screen; tables that are scroll by themselves."""
    second = (await compaction_ordinals(work, await work.find("billing")))[1]
    async with served(allow_changes=True) as url, visiting(url, size=PHONE) as visit:
        for path in ("/ui/", "/ui/memory", *(f"/ui/t/billing{side}" for side in (*SIDES, f"/c/{second}"))):
            await visit.go(path)
            assert await visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0], path
        await visit.go("/ui/t/billing")
        await drawn(visit.page)
        await visit.shot("phone")


async def test_the_keyboard_is_enough(served: Serve) -> None:
    """Find a thread, go to its timeline, expand a line, switch to dark, ask for help."""
    async with served() as url, visiting(url) as visit:
        page = visit.page
        await visit.go("/ui/")
        await page.keyboard.press("/")
        await page.keyboard.type("postgresql")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**q=postgresql*")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/ui/t/billing")
        await page.keyboard.press("g")
        await page.keyboard.press("t")
        await page.wait_for_url("**/timeline")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#records details[open] pre.text")
        await page.keyboard.press("d")
        assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
        await page.keyboard.press("?")
        assert await page.locator("#keys[open]").count() == 1
