"""`threadkeep hook run`: what a client's events do, and that no failure of ours is one of the client's."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from threadkeep.adapters.client_hooks import split_part

if TYPE_CHECKING:
    from tests.cli.stories import Cli, Ran

SESSION = "0199aaaa-0000-7000-8000-000000000001"
FAILURES = ".local/share/threadkeep/client-hooks/failures.jsonl"


class Stdin:
    def __init__(self, body: bytes) -> None:
        self.buffer = io.BytesIO(body)


@pytest.fixture
def transcript(home: Path) -> Path:
    """A session of Claude Code: two requests and their answers."""
    rows = [row("user", "Never touch vendor/. Staging listens on 7443."), row("assistant", "Understood. " * 200)]
    rows += [row("user", "Fix the login.", after=1), row("assistant", "Done.", after=2)]
    file = home / f"{SESSION}.jsonl"
    file.write_text("".join(json.dumps(each | {"uuid": f"u{n}"}) + "\n" for n, each in enumerate(rows)))
    return file


def row(role: str, text: str, *, after: int | None = None) -> dict[str, Any]:
    said = {"role": role, "content": [{"type": "text", "text": text}]}
    parent = None if role == "user" and after is None else f"u{0 if after is None else after}"
    return {"type": role, "sessionId": SESSION, "parentUuid": parent, "message": said}


@pytest.fixture
def called(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the hook with an event on its standard input."""

    def call(event: object, *more: str, store: Path | None = None) -> Ran:
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        monkeypatch.setattr("sys.stdin", Stdin(body))
        return cli("hook", "run", "claude-code", *more, "--store", store or home / "threadkeep.db")

    return call


def before(transcript: Path) -> dict[str, object]:
    return {"hook_event_name": "PreCompact", "session_id": SESSION, "transcript_path": str(transcript), "trigger": "manual"}


def after(transcript: Path) -> dict[str, object]:
    return {"hook_event_name": "SessionStart", "session_id": SESSION, "transcript_path": str(transcript), "source": "compact"}


def context(ran: Ran) -> str:
    answer = json.loads(ran.out)["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    return str(answer["additionalContext"])


def test_the_transcript_is_recorded_and_the_state_handed_back(called: Any, cli: Cli, home: Path, transcript: Path) -> None:
    """Before the compaction nothing is said; after it the model gets every statement, the newest request, and where to look."""
    store = home / "threadkeep.db"
    assert (called(before(transcript)).out, called(before(transcript)).out) == ("", "")
    told = context(called(after(transcript)))
    assert [text in told for text in ("Never touch vendor/.", "Staging listens on 7443.", "word for word:\nFix the login.")] == [
        True
    ] * 3
    (command,) = {line.split("`")[1] for line in told.splitlines() if line.startswith("`")}
    words = shlex.split(command)
    assert words[words.index("recall") + 1 :] == [SESSION, "WORDS"]
    kinds = [each["kind"] for each in cli("show", SESSION, "--records", "--json", "--store", store).json["records"]]
    assert (kinds.count("item"), kinds.count("checkpoint")) == (4, 1)


def test_only_what_is_new_is_recorded_the_next_time(called: Any, cli: Cli, home: Path, transcript: Path) -> None:
    """A second compaction adds what came since, and its state has both what was said before the first and after it."""
    called(before(transcript))
    with transcript.open("a") as file:
        file.write(json.dumps(row("user", "Use tabs. " + "Look here. " * 300, after=3) | {"uuid": "u4"}) + "\n")
        file.write(json.dumps(row("assistant", "Yes.", after=4) | {"uuid": "u5"}) + "\n")
    called(before(transcript))
    told = context(called(after(transcript)))
    assert ["Never touch vendor/." in told, "Use tabs." in told] == [True, True]
    records = cli("show", SESSION, "--records", "--json", "--store", home / "threadkeep.db").json["records"]
    assert [each["kind"] for each in records].count("item") == 6


def test_the_client_s_own_summary_never_becomes_the_state(called: Any, cli: Cli, home: Path, transcript: Path) -> None:
    """Its compaction is on record and taken back: the next state rests on what was said. An import adds nothing to that."""
    called(before(transcript))
    boundary = {"type": "system", "subtype": "compact_boundary", "sessionId": SESSION, "parentUuid": None, "uuid": "b1"}
    summary = row("user", "This session is being continued from a previous conversation. Nothing mattered.", after=9)
    rows = [boundary | {"logicalParentUuid": "u3"}, summary | {"uuid": "c1", "parentUuid": "b1", "isCompactSummary": True}]
    rows += [
        row("user", "Use tabs. " + "Look here. " * 300) | {"uuid": "u4", "parentUuid": "c1"},
        row("assistant", "Yes. " + "I looked there. " * 900, after=4),
    ]
    with transcript.open("a") as file:
        file.write("".join(json.dumps({"uuid": "u5", **each}) + "\n" for each in rows))
    called(before(transcript))
    told = context(called(after(transcript)))
    assert [text in told for text in ("Never touch vendor/.", "Use tabs.", "Nothing mattered")] == [True, True, False]
    store = home / "threadkeep.db"
    kinds = [each["kind"] for each in cli("show", SESSION, "--records", "--json", "--store", store).json["records"]]
    assert (kinds.count("checkpoint"), kinds.count("undo")) == (3, 1)
    assert [each["added"] for each in cli("import", transcript, "--json", "--store", store).json["threads"]] == [0]
    assert cli("verify", "--json", "--store", store).json["problems"] == []


def test_a_state_that_was_not_prepared_is_made_when_it_is_asked_for(called: Any, transcript: Path) -> None:
    """Where the hook before the compaction never ran, the one after it reads the transcript itself."""
    assert "Never touch vendor/." in context(called(after(transcript)))


def test_other_events_are_none_of_its_business(called: Any, home: Path, transcript: Path) -> None:
    """A session that starts anew is told nothing, and no store is made for it."""
    ran = called({**after(transcript), "source": "startup"})
    assert (ran.code, ran.out, (home / "threadkeep.db").exists()) == (0, "", False)


def test_a_part_beyond_the_state_says_nothing(called: Any, transcript: Path) -> None:
    """A short state is told by the first handler alone."""
    called(before(transcript))
    assert [called(after(transcript), "--part", part).out == "" for part in ("1", "2", "4")] == [False, True, True]


@pytest.mark.parametrize(
    "event",
    [b"", b"{", b"[]", b'{"hook_event_name": 3}', b'{"hook_event_name": "PreCompact"}', b"x" * (1 << 20) + b"x"],
    ids=["nothing", "torn", "no object", "no name", "no transcript", "too long"],
)
def test_what_is_no_event_costs_the_client_nothing(called: Any, home: Path, event: bytes) -> None:
    """Exit 0, a message for the user, one on stderr, and a line in the file of failures."""
    ran = called(event)
    message = json.loads(ran.out)["systemMessage"]
    assert (ran.code, ran.err) == (0, f"threadkeep: {message}\n")
    assert [json.loads(line)["text"] for line in (home / FAILURES).read_text().splitlines()] == [message]


def test_a_transcript_that_is_gone_costs_the_client_nothing(called: Any, home: Path) -> None:
    """Before the compaction and after it."""
    events = (before(home / "gone.jsonl"), after(home / "gone.jsonl"))
    assert [(ran.code, "systemMessage" in ran.out) for ran in map(called, events)] == [(0, True)] * 2


def test_a_store_that_cannot_be_opened_costs_the_client_nothing(called: Any, home: Path, transcript: Path) -> None:
    """A folder where the store should be is a failure of ours alone."""
    ran = called(before(transcript), store=home)
    assert (ran.code, "systemMessage" in ran.out) == (0, True)


def test_parts_are_the_text_and_say_where_the_rest_is() -> None:
    """One behind another they are the text, each within its bound; what four cannot hold is named in the last."""
    text = "\n".join(f"line {number} " + "é" * 40 for number in range(200))
    parts = [split_part(text, part, limit_bytes=9_000, parts=4, rest="REST") for part in range(1, 6)]
    told = [part.split("\n", 1)[1] for part in parts if part is not None]
    assert ("".join(told), parts[3:], [len((part or "").encode()) <= 9_000 for part in parts]) == (text, [None, None], [True] * 5)
    cut = [split_part(text, part, limit_bytes=2_000, parts=4, rest="REST") for part in range(1, 6)]
    assert ([part is None for part in cut], (cut[3] or "").endswith("\nREST")) == ([False] * 4 + [True], True)
