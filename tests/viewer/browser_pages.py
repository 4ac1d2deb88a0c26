"""A real browser before the viewer: Debian's Chromium, driven by Playwright; what a page does wrong is kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.drivers.process import run_to_end
from tests.viewer.conftest import PASS

if TYPE_CHECKING:
    from playwright.async_api import Page

REPOSITORY = Path(__file__).parents[2]
KEPT = REPOSITORY / ".cache" / "browser"
AXE = "4.14.0"
INSTALL_SECONDS = 120.0
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WIDE = (1200, 800)
PHONE = (390, 844)


@dataclass(slots=True, kw_only=True)
class Visit:
    """A page open in a browser; `wrong` is what it reported, `asked` every address it asked for."""

    page: Page
    url: str
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def go(self, path: str) -> None:
        await self.page.goto(f"{self.url}{path}")

    async def shot(self, name: str, *, whole: bool = False) -> None:
        """Keep a picture of the page."""
        folder = Path(os.environ.get("THREADKEEP_SCREENSHOTS") or KEPT / "screenshots")
        folder.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=folder / f"{name}.png", full_page=whole)


@asynccontextmanager
async def visiting(url: str, *, size: tuple[int, int] = WIDE, dark: bool = False) -> AsyncIterator[Visit]:
    """Enter the viewer at `url`. Leaving fails the test if a page reported an error or broke the policy it came with."""
    playwright = pytest.importorskip("playwright.async_api", reason="Playwright is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("there is no Chromium here; `make test-browser` installs Debian's")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        width, height = size
        context = await browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            locale="en-GB",
            timezone_id="UTC",
        )
        page = await context.new_page()
        visit = Visit(page=page, url=url)
        page.on("console", lambda told: visit.wrong.append(told.text) if told.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: visit.wrong.append(str(error)))
        page.on("dialog", lambda dialog: visit.wrong.append(f"a dialog opened: {dialog.message}"))
        page.on("request", lambda request: visit.asked.append(request.url))
        await visit.go(f"/ui/enter?pass={PASS}")
        try:
            yield visit
        finally:
            await browser.close()
        assert visit.wrong == []
        assert [asked for asked in visit.asked if not asked.startswith(f"{url}/")] == []


async def axe_source() -> str:
    """Return axe-core, fetched from npm once and kept outside the project's files."""
    place = KEPT / f"axe-core-{AXE}"
    script = place / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed, and axe-core comes from there")
        place.mkdir(parents=True, exist_ok=True)
        words = (npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place), f"axe-core@{AXE}")
        ended = await run_to_end(words, cwd=place, environment=None, seconds=INSTALL_SECONDS)
        assert ended.exit_code == 0, ended.stderr.decode(errors="replace")
    return script.read_text(encoding="utf-8")
