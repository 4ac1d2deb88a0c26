"""What the documentation shows is run, and what it points at is there."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest
from tests.docs.pages import ELSEWHERE, ROOT, Shown, pages, shown_on
from tests.docs.room import NOT_HERE, Room, furnished

# A reference is made from the code, and shows what the code says of itself.
SHOWN = [page for page in pages() if not page.startswith("docs/reference/")]
TRIED = [page for page in SHOWN if page not in ELSEWHERE and shown_on(page)]
LANGUAGES = {"sh", "python", "toml", "json", "text"}
_server = re.compile(r"postgresql://\S+")
_link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("page", TRIED)
async def test_what_a_page_shows_works(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Every command and program, in the order of the page, in an empty home with one thread, a provider and the servers named."""
    servers = sorted({name for shown in shown_on(page) if shown.language == "sh" for name in _server.findall(shown.text)})
    databases = {name: await request.getfixturevalue("postgres_server").new_database() for name in servers}
    async with furnished(tmp_path, stands_for=databases) as room:
        for shown in shown_on(page):
            await tried(shown, room)


async def tried(shown: Shown, room: Room) -> None:
    match shown.language:
        case "sh":
            for line in lines_of(shown.text):
                await room.run_line(line)
        case "python" if is_whole(shown.text):
            await room.run_program(shown.text)
        case "python":
            compile(shown.text, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        case "toml":
            tomllib.loads(shown.text)
        case "json":
            json.loads(shown.text)
        case _:
            assert shown.language == "text", f"line {shown.line}: nothing says how {shown.language!r} is tried"


def lines_of(text: str) -> list[str]:
    """Return the commands of a block, those left out that are none of a test's business."""
    joined = text.replace("\\\n", " ")
    commands = [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [line for line in commands if not any(line.startswith(f"{name} ") for name in NOT_HERE)]


def is_whole(program: str) -> bool:
    """Whether a piece of Python runs by itself: nothing is awaited outside a function."""
    try:
        compile(program, "page", "exec")
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("page", SHOWN)
def test_every_link_leads_somewhere(page: str) -> None:
    """A link without a scheme names a file of the project."""
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [target for target in _link.findall(text) if "://" not in target]
    assert [target for target in targets if not ((ROOT / page).parent / target).exists()] == []


@pytest.mark.parametrize("page", SHOWN)
def test_examples_say_in_which_language_they_are(page: str) -> None:
    """So that each can be tried as what it is."""
    assert {shown.language for shown in shown_on(page)} <= LANGUAGES


def test_pages_that_are_tried_elsewhere_are_there() -> None:
    """And so are the tests that do it."""
    assert [name for name in (*ELSEWHERE, *ELSEWHERE.values()) if not (ROOT / name).exists()] == []


def test_the_index_leads_to_every_page() -> None:
    """docs/README.md names each page once."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed = [f"docs/{target}" for target in _link.findall(index) if not target.startswith("../")]
    assert sorted(listed) == [page for page in pages() if page.startswith("docs/") and page != "docs/README.md"]


def test_the_figures_are_the_guards() -> None:
    """The table of what a window keeps holds the counts that the guard compares."""
    counts = json.loads((ROOT / "benchmarks" / "guard" / "expected.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| after six compactions")
    rows = [line.strip("| ").split(" | ")[1:] for line in table.splitlines()[2:8]]

    def pair(arm: str, kept: str, asked: str = "") -> list[str]:
        found = [counts[f"{family}, {arm}"] for family in ("story", "frozen")]
        return [f"{each[kept]} of {each[asked]}" if asked else f"{each[kept]:,}" for each in found]

    assert rows[0] == pair("extractive", "user-stated kept", "user-stated asked")
    assert [each.split(" of ")[0] for each in rows[1]] == pair("extractive", "tool-only reused kept")
    assert rows[2] == pair("extractive", "stale")
    assert rows[3] == pair("extractive", "window tokens")
    assert rows[4] == pair("recall", "quoted", "asked")
    assert rows[5] == pair("session, lying", "user-stated kept", "user-stated asked")
