"""Examples on the pages run, links lead somewhere, and the figures are true."""

from __future__ import annotations

import ast
import json
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
from tests.docs.pages import ELSEWHERE, ROOT, Example, list_pages, read_examples
from tests.docs.sandbox import NOT_RUN, Sandbox, open_sandbox

# The reference is generated from the code, and its examples with it.
PAGES = [page for page in list_pages() if not page.startswith("docs/reference/")]
RUN_HERE = [page for page in PAGES if page not in ELSEWHERE and read_examples(page)]
LINKED = [*PAGES, "AGENTS.md", "ARCHITECTURE.md", "SECURITY.md", "benchmarks/README.md", "plugins/opencode/README.md"]
LANGUAGES = {"sh", "python", "toml", "json", "text"}
_server = re.compile(r"postgresql://\S+")
_link = re.compile(r"\]\(([^)#\s]*)(#[^)]*)?\)")


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("page", RUN_HERE)
async def test_examples_of_a_page_run(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Every command and program, in the order of the page, in an empty home with one thread, a provider and the servers named."""
    examples = read_examples(page)
    servers = sorted({name for example in examples if example.language == "sh" for name in _server.findall(example.text)})
    databases = {name: await request.getfixturevalue("postgres_server").new_database() for name in servers}
    async with open_sandbox(tmp_path, replacements=databases) as sandbox:
        for example in examples:
            await run_example(example, sandbox)


async def run_example(example: Example, sandbox: Sandbox) -> None:
    match example.language:
        case "sh":
            for line in list_commands(example.text):
                await sandbox.run_line(line)
        case "python" if is_program(example.text):
            await sandbox.run_program(example.text)
        case "python":
            compile(example.text, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        case "toml":
            tomllib.loads(example.text)
        case "json":
            json.loads(example.text)
        case _:
            assert example.language == "text", f"line {example.line}: no test knows how to run {example.language!r}"


def list_commands(text: str) -> list[str]:
    """Return the commands of a block that a test can run."""
    joined = text.replace("\\\n", " ")
    commands = [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [line for line in commands if not any(line.startswith(f"{name} ") for name in NOT_RUN)]


def is_program(text: str) -> bool:
    """Return whether a piece of Python runs by itself: it awaits nothing outside a function."""
    try:
        compile(text, "page", "exec")
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("page", LINKED)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    """A link without a scheme names a file of the project; a fragment names one of its headings."""
    missing = []
    for target, fragment in _link.findall((ROOT / page).read_text(encoding="utf-8")):
        if "://" in target:
            continue
        file = (ROOT / page).parent / target if target else ROOT / page
        if not file.exists() or (fragment and fragment[1:] not in list_anchors(file)):
            missing.append(target + fragment)
    assert missing == []


def list_anchors(file: Path) -> set[str]:
    """Return the fragments by which a page's headings are linked."""
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_examples_name_their_language(page: str) -> None:
    """So that each can be run as what it is."""
    assert {example.language for example in read_examples(page)} <= LANGUAGES


def test_pages_that_run_elsewhere_are_there() -> None:
    """And so are the tests that run them."""
    assert [name for name in (*ELSEWHERE, *ELSEWHERE.values()) if not (ROOT / name).exists()] == []


def test_the_architecture_names_modules_that_are_there() -> None:
    """A path in backticks on ARCHITECTURE.md is a module of the package."""
    paths = re.findall(r"`(\w+(?:/\w+)+\.py)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert paths
    assert [path for path in paths if not (ROOT / "src" / "threadkeep" / path).exists()] == []


def test_the_architecture_draws_the_layers_of_the_contract() -> None:
    """The diagram on ARCHITECTURE.md has the layers of pyproject.toml, in their order."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {contract["id"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}
    diagram = next(example.text for example in read_examples("ARCHITECTURE.md") if example.language == "text")
    drawn = [re.split(r"  +", line[13:])[0] for line in diagram.splitlines()]
    assert drawn == contracts["layers"]["layers"]


@pytest.mark.parametrize("page", PAGES)
def test_names_of_the_library_are_there(page: str) -> None:
    """A dotted name such as `threadkeep.llm.Model` can be imported; tests of hosts import the adapters."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in re.findall(r"\bthreadkeep\.(?:[A-Z]|session\b|llm\b|errors\b|testing\b)[\w.]*\w", text):
        pkgutil.resolve_name(name)


def test_the_index_leads_to_every_page() -> None:
    """docs/README.md links each page once."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed = [f"docs/{target}" for target, _ in _link.findall(index) if not target.startswith("../")]
    assert sorted(listed) == [page for page in list_pages() if page.startswith("docs/") and page != "docs/README.md"]


def test_the_figures_are_the_guards() -> None:
    """The table of what a window keeps holds the counts that `benchmarks guard` compares."""
    counts = json.loads((ROOT / "benchmarks" / "guard" / "expected.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| after six compactions")
    rows = [line.strip("| ").split(" | ")[1:] for line in table.splitlines()[2:8]]

    def read_counts(arm: str, kept: str, asked: str = "") -> list[str]:
        found = [counts[f"{family}, {arm}"] for family in ("story", "frozen")]
        return [f"{each[kept]} of {each[asked]}" if asked else f"{each[kept]:,}" for each in found]

    assert rows[0] == read_counts("extractive", "user-stated kept", "user-stated asked")
    assert [each.split(" of ")[0] for each in rows[1]] == read_counts("extractive", "tool-only reused kept")
    assert rows[2] == read_counts("extractive", "stale")
    assert rows[3] == read_counts("extractive", "window tokens")
    assert rows[4] == read_counts("recall", "quoted", "asked")
    assert rows[5] == read_counts("session, lying", "user-stated kept", "user-stated asked")
