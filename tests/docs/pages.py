"""Pages of the documentation and the examples on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Pages whose examples need a host or a server, and the tests that run them.
ELSEWHERE = {
    "docs/hooks.md": "tests/hooks/test_page.py",
    "docs/mcp.md": "tests/mcp",
    "docs/service.md": "tests/container",
    "docs/hosts/claude-agent-sdk.md": "tests/adapters",
    "docs/hosts/claude-code-hooks.md": "tests/clients",
    "docs/hosts/codex-hooks.md": "tests/clients",
    "docs/hosts/hermes.md": "tests/hosts",
    "docs/hosts/langchain.md": "tests/adapters",
    "docs/hosts/litellm.md": "tests/hosts",
    "docs/hosts/openai-agents.md": "tests/adapters",
    "docs/hosts/opencode.md": "tests/clients",
    "docs/hosts/pydantic-ai.md": "tests/adapters",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """The content of one fenced block and its language."""

    language: str
    text: str
    line: int


def list_pages() -> list[str]:
    """Return every page, relative to the project's root."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def read_examples(page: str) -> Sequence[Example]:
    """Return the examples of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Example(language=fence[1], text=fence[2], line=text.count("\n", 0, fence.start()) + 1) for fence in _fence.finditer(text)
    ]
