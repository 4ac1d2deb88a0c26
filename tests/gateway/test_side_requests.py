"""Rule 15: what a client asks on its own behalf is passed through and leaves no trace in the conversation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.prefix_growth import prefix_faults
from tests.doubles.script import call, say
from tests.gateway.client import ENDPOINTS, HISTORY, WIRES, Client, base_fields, person, records, talk, text_of, threads

from threadkeep.dialects import Target, find_dialect
from threadkeep.gateway.conversation.hints import ROOT_AGENT, is_side_request, read_hints
from threadkeep.gateway.conversation.proxy_interface import Forward, Incoming
from threadkeep.store import RecordKind
from threadkeep.threads import BY_CLIENT, read_failed_attempts

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

    from threadkeep import Threadkeep

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

LONG = "The build log follows for reference. " * 60
CODEX_COMPACTION = {"x-codex-turn-metadata": json.dumps({"request_kind": "compaction"})}
CLAUDE = {"x-claude-code-session-id": "s"}


def instructed(wire: WireName, text: str, *items: Json) -> bytes:
    """Return a request without tools whose instructions are `text`, where the client of that wire puts them."""
    fields = {name: value for name, value in base_fields(wire).items() if name not in ("tools", "head", "instructions")}
    match wire:
        case "responses":
            head = [{"role": "developer", "content": text}]
        case "chat":
            head = [{"role": "system", "content": text}]
        case "messages":
            head = []
            fields["system"] = [{"type": "text", "text": text}]
        case "gemini":
            head = []
            fields["systemInstruction"] = {"parts": [{"text": text}]}
    return json.dumps({**fields, HISTORY[wire]: [*head, *items]}).encode()


def judged(wire: WireName, body: bytes, *, path: str | None = None, headers: dict[str, str] | None = None) -> bool:
    dialect = find_dialect(wire)
    request = dialect.split(body)
    assert request is not None
    hints = read_hints(headers or {}, request, Target(), dialect=dialect, upstream="", key=b"k")
    return is_side_request(request, path=path or ENDPOINTS[wire], hints=hints, dialect=dialect)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("instructions", "said"),
    [
        ("You are a title generator. You output ONLY a title.", "Generate a title for this conversation"),
        ("You are a context summarization agent.", "Summarise <conversation>\n[User]: hi\n</conversation>"),
        ("You are a context summarization assistant.", "<conversation>hi</conversation> now"),
        ("You are a context summarization assistant.", "# Conversation\n[User]: hi\n\n# Instructions\nSummarise."),
        ("You are a specialized Task Routing AI. Your sole function is to assign a score.", "And now?"),
        ("*Briefly* summarize this partial conversation about programming.", "# USER\nhi\n# ASSISTANT\nhello"),
    ],
)
async def test_titles_summaries_and_routers_of_clients_are_told_on_every_wire(
    wire: WireName, instructions: str, said: str
) -> None:
    """No tools and instructions of its own make one."""
    assert judged(wire, instructed(wire, instructions, person(wire, said)))


async def test_pi_sets_the_effort_of_a_summary_behind_it() -> None:
    """Its message in the system's role says nothing."""
    asking = person("messages", "<conversation>hi</conversation> now")
    effort = {"role": "system", "content": [], "output_config": {"effort": "medium"}}
    assert judged("messages", instructed("messages", "You are a context summarization assistant", asking, effort))


@pytest.mark.parametrize("wire", WIRES)
async def test_words_alone_make_no_side_request(wire: WireName) -> None:
    """The same words with tools beside them, or typed by a person, are a conversation."""
    with_tools = json.loads(instructed(wire, "You are a title generator", person(wire, "hi")))
    with_tools["tools"] = base_fields(wire)["tools"]
    assert not judged(wire, json.dumps(with_tools).encode())
    assert not judged(wire, instructed(wire, "Be brief.", person(wire, "You are a title generator <conversation>")))
    assert not judged(wire, instructed(wire, "You are a context summarization agent", person(wire, "no such thing")))
    assert not judged(wire, instructed(wire, "Be brief.", person(wire, "CRITICAL: Respond with TEXT ONLY")))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="the client's note taker has instructions of its own")
async def test_a_note_taker_with_the_whole_conversation_adds_nothing_to_it(tk: Threadkeep, wire: WireName) -> None:
    """Qwen Code's: its instructions and its own steps are no words of the person's, and the conversation goes on without them."""
    client = talk(tk, wire)
    await client.ask("Never touch vendor/.")
    taker = client.forked()
    told = json.loads(instructed(wire, "You are now acting as the managed memory extraction subagent for an assistant."))
    head = told.pop(HISTORY[wire])
    taker.fields = {**told, **({"instructions": ""} if wire == "responses" else {}), "head": head}
    await taker.ask("Managed memory has TWO directories.", call("bash", {"command": "ls"}, call_id="c1"))
    await taker.tool({"c1": "none"}, say("Noted."))
    await client.ask("And now?")
    [thread] = await threads(tk)
    assert b"Managed memory" not in b"".join(record.body for record in await thread.records())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="a request for a summary may retell the history")
async def test_a_clients_own_compaction_is_noted_with_its_cost(tk: Threadkeep, wire: WireName) -> None:
    """Behind the history or retelling it: a mark in the thread that says by whom and at what cost, and no item."""
    client = talk(tk, wire, x_session_id="ses_1")
    await client.ask("Never touch vendor/.")
    await client.ask("Go on.")
    behind = client.forked()
    await behind.ask("CRITICAL: Respond with TEXT ONLY. Summarise.")
    await client.ask("And on.")
    told = json.loads(instructed(wire, "You are a context summarization agent", person(wire, "<conversation>all</conversation>")))
    retelling = client.forked(length=0)
    *head, asked = told.pop(HISTORY[wire])
    retelling.history, retelling.fields = [asked], {"instructions": "", **told, "head": head, "tools": []}
    await retelling.send(say("They said all."))
    [thread] = await threads(tk)
    noted = [body for record in await thread.records() if (body := read_failed_attempts(record)) is not None]
    assert [body.outcome for body in noted] == [BY_CLIENT] * 2
    assert [(each.strategy, each.calls, each.outcome) for body in noted for each in body.attempts] == [("client", 1, "taken")] * 2
    assert all(each.input_tokens and each.output_tokens for body in noted for each in body.attempts)
    kinds = [record.kind for record in await thread.records()]
    assert (kinds.count(RecordKind.TURN), (await tk.verify()).ok) == (3, True)


async def test_counts_and_compactions_by_the_provider_are_told_by_their_paths() -> None:
    """A path that takes a history and does not go on with it is no conversation, whatever it says."""
    assert judged("messages", instructed("messages", "x", person("messages", "hi")), path="/messages/count_tokens")
    assert judged("responses", instructed("responses", "x", person("responses", "hi")), path="/responses/compact")


async def test_codex_says_so_itself_in_a_header_or_an_item() -> None:
    """Its own compaction is marked, by its metadata or by the item that asks the provider for one."""
    body = instructed("responses", "x", person("responses", "hi"))
    assert judged("responses", body, headers=CODEX_COMPACTION)
    assert judged("responses", instructed("responses", "x", person("responses", "hi"), {"type": "compaction_trigger"}))


async def test_a_summary_request_of_claude_code_needs_its_headers_or_a_known_history(tk: Threadkeep) -> None:
    """The words alone, in a conversation nobody knows, are a person's."""
    asking = [person("messages", "hi"), {"role": "assistant", "content": "ho"}]
    last = person("messages", "fine\n", "CRITICAL: Respond with TEXT ONLY. Summarise.")
    assert judged("messages", instructed("messages", "x", *asking, last), headers=CLAUDE)
    client = talk(tk, "messages")
    client.history = [*asking, last]
    await client.open()
    await client.conversations.wait_idle()
    assert len(await threads(tk)) == 1
    known = talk(tk, "messages")
    await known.ask("first of all")
    await known.ask("and then")
    before = await records(tk)
    known.history.append(last)
    assert isinstance(await known.open(), Forward)
    assert await records(tk) == before


async def interleaved(client: Client) -> list[Forward]:
    """Return what becomes of every kind of side request in the middle of a conversation."""
    wire, history = client.wire, client.history
    conversation = person(wire, "<conversation>\n[User]: Step 0.\n</conversation>")
    asked: list[tuple[bytes, str, dict[str, str]]] = [
        (instructed(wire, "You are a title generator", person(wire, "Title"), *history[:1]), ENDPOINTS[wire], {}),
        (instructed(wire, "You are a context summarization agent", conversation), ENDPOINTS[wire], {}),
        (instructed(wire, "You are a context summarization assistant", conversation), ENDPOINTS[wire], {}),
        *((client.forked().body(), path, {}) for path in find_dialect(wire).api.endpoints.others if "stream" not in path),
        (_with(client, person(wire, "Summarise.")), ENDPOINTS[wire], CODEX_COMPACTION),
        *([(_with(client, {"type": "compaction_trigger"}), ENDPOINTS[wire], {})] if wire == "responses" else []),
    ]
    if wire != "gemini":
        asked.append((_with(client, person(wire, "CRITICAL: Respond with TEXT ONLY")), ENDPOINTS[wire], CLAUDE))
    decided = [
        await client.conversations.open(Incoming(path=path, headers={**client.headers, **headers}, body=body))
        for body, path, headers in asked
    ]
    return [each for each in decided if isinstance(each, Forward)]


def _with(client: Client, item: Json) -> bytes:
    asking = client.forked()
    asking.history.append(item)
    return asking.body()


@pytest.mark.parametrize("wire", WIRES)
async def test_all_kinds_leave_a_compacted_conversation_as_it_was(tk: Threadkeep, wire: WireName) -> None:
    """None is recorded, none makes a checkpoint; one that shows the conversation's history is shown its checkpoint too."""
    client = talk(tk, wire, x_session_id="s")
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    await client.ask("Go on.")
    before = await records(tk)
    decided = await interleaved(client)
    assert len(decided) == {"responses": 8, "chat": 5, "messages": 6, "gemini": 5}[wire]
    for forward in decided:
        await forward.finished(find_dialect(wire).wire.read_reply(b"{}"))
    assert await records(tk) == before
    assert [b"session_compact_state" in forward.body for forward in decided] == [*[False] * 3, *[True] * (len(decided) - 3)]
    await client.ask("And on.")
    assert prefix_faults(client.provider.requests) == []


@pytest.mark.parametrize(
    ("wire", "headers"),
    [
        ("messages", {"x-claude-code-agent-id": "a1", "x-claude-code-session-id": "s"}),
        ("responses", {"x-parent-session-id": "s", "x-session-id": "sub"}),
        ("chat", {"x-parent-session-id": "s", "x-session-id": "sub"}),
        ("responses", {"x-codex-turn-metadata": json.dumps({"agent_name": f"{ROOT_AGENT}/helper"})}),
    ],
)
async def test_a_sub_agent_holds_a_conversation_of_its_own(tk: Threadkeep, wire: WireName, headers: dict[str, str]) -> None:
    """It shares the session's name and even its first words, and neither thread nor checkpoint."""
    client = talk(tk, wire, x_session_id="s", x_claude_code_session_id="s")
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    sub = client.forked(headers=headers)
    await sub.ask("Do the sub work.", say("done"))
    assert "session_compact_state" not in text_of(sub.provider.last)
    await client.ask("Go on.")
    assert "sub work" not in text_of(client.provider.last)
    kinds = [[record.kind for record in each].count(RecordKind.CHECKPOINT) for each in await records(tk)]
    assert sorted(kinds) == [0, 1]
