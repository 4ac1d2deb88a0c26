"""Real transcripts of Claude Code, where there are any beside the repository: nothing in them is lost or misread.

Of one dialect alone: these transcripts hold messages of the Messages API.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from threadkeep.dialects import MESSAGES
from threadkeep.dialects.messages.markers import remove_markers
from threadkeep.dialects.messages.thinking_blocks import remove_thinking
from threadkeep.items import Item, ItemKind

REPOSITORY = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("THREADKEEP_CORPUS") or REPOSITORY.parent / "shared" / "corpus")
TRANSCRIPTS = sorted((*CORPUS.glob("claude/**/*.jsonl"), *CORPUS.glob("multi-agent-fixtures/claude/**/*.jsonl")))

pytestmark = pytest.mark.skipif(
    not TRANSCRIPTS, reason="no transcripts: set THREADKEEP_CORPUS to a folder that has claude/**/*.jsonl"
)


def messages(path: Path) -> Iterator[Any]:
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line) if line.strip() else {}
        if isinstance(row, dict) and isinstance(row.get("message"), dict) and "role" in row["message"]:
            yield row["message"]


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.name)
def test_every_message_of_a_transcript_survives_to_the_byte(path: Path) -> None:
    """As a request, and as items put together anew."""
    body = json.dumps({"model": "m", "messages": list(messages(path))}, separators=(",", ":"), ensure_ascii=False).encode()
    request = MESSAGES.split(body)
    assert request is not None
    assert MESSAGES.join(request, request.items) == body
    for item in request.items:
        assert MESSAGES.canonical(MESSAGES.parse(json.loads(item.raw))) == MESSAGES.canonical(item)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.name)
def test_results_and_reminders_are_no_persons_words(path: Path) -> None:
    """A message of nothing but results, or whose every text is a reminder or a trace, was written by no one."""
    for message in messages(path):
        view = MESSAGES.view(Item(json.dumps(message).encode()))
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        hosts = ("<system-reminder>", "<command-name>", "<local-command-", "Caveat: The messages below")
        if all(part["type"] == "tool_result" or str(part.get("text", "")).lstrip().startswith(hosts) for part in parts):
            assert (view.by_person, view.said) == (False, "")
        elif message["role"] == "user":
            assert view.by_person
        assert (view.kind is ItemKind.OUTPUT) == any(part["type"] == "tool_result" for part in parts)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.name)
def test_a_transcript_can_be_arranged_and_bared(path: Path) -> None:
    """Roles alternate afterwards, and no message is left empty."""
    items = [remove_markers(remove_thinking(Item(json.dumps(message).encode()))) for message in messages(path)]
    arranged = [json.loads(item.raw) for item in MESSAGES.arrange(items)]
    assert all(one["role"] != other["role"] for one, other in pairwise(arranged))
    assert all(message["content"] for message in arranged)
