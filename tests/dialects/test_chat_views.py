"""What threadkeep sees in chat messages: every recorded form, view by view.

Of one dialect alone: the recorded forms are Chat Completions'; test_messages_views.py has another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import pytest

from threadkeep.dialects import CHAT
from threadkeep.items import Item, ItemKind, Role, ToolCall, ToolOutput, View, find_boundaries, find_open_calls, find_orphans

REQUESTS = Path(__file__).parent / "fixtures" / "chat" / "requests"


def items_of(name: str) -> list[Item]:
    request = CHAT.split((REQUESTS / f"{name}.json").read_bytes())
    assert request is not None
    return [*request.head, *request.items]


def asked(text: str, *, said: str | None = None, images: int = 0, context: str | None = None) -> View:
    words = text if said is None else said
    return View(kind=ItemKind.MESSAGE, role=Role.USER, text=text, images=images, by_person=True, said=words, context=context)


def injected(text: str, context: str | None = None) -> View:
    return View(kind=ItemKind.MESSAGE, role=Role.USER, text=text, context=context)


def answered(text: str) -> View:
    return View(kind=ItemKind.MESSAGE, role=Role.ASSISTANT, text=text)


def called(text: str, *, tool: str, opens: Sequence[str], words: str = "") -> View:
    told = text.removeprefix(f"{words}\n")
    arguments = told.split("\n") if len(opens) > 1 else [told]
    calls = (ToolCall(id=call_id, name=tool, arguments=each) for call_id, each in zip(opens, arguments, strict=False))
    return View(
        kind=ItemKind.CALL, role=Role.ASSISTANT, text=text, opens=tuple(opens), tool=tool, calls=tuple(calls), words=words
    )


def returned(text: str, *closes: str, images: int = 0) -> View:
    outputs = tuple(ToolOutput(call_id=call_id, text=text) for call_id in closes)
    return View(kind=ItemKind.OUTPUT, role=Role.TOOL, text=text, closes=closes, outputs=outputs, images=images)


def thought(text: str) -> View:
    return View(kind=ItemKind.REASONING, role=Role.ASSISTANT, text=text)


def instructed(text: str, *, tag: str | None = None) -> View:
    name = tag or blake2b(text.encode(), digest_size=8).hexdigest()
    return View(kind=ItemKind.MESSAGE, role=Role.SYSTEM, text=text, context=f"system:{name}")


def opaque(role: Role) -> View:
    return View(kind=ItemKind.OPAQUE, role=role)


VIEWS = {
    "strings_and_empty_content": [
        instructed("You work in a repository. Today is Monday."),
        asked("Read src/app.py."),
        called('{"path": "src/app.py"}', tool="read", opens=["call_1"]),
        returned("print('hi')\n", "call_1"),
        answered("It prints a greeting."),
        asked("Never print in libraries."),
    ],
    "parts_and_null_content": [
        instructed("Be brief."),
        asked("List the files."),
        called('{"command":"ls"}', tool="bash", opens=["call_a"]),
        returned("a.py\nb.py", "call_a"),
        answered("Two files."),
        asked("Which one is \nlarger?"),
    ],
    "written_out_by_an_sdk": [
        asked("Say hello."),
        answered("Hello."),
        asked("Now swear."),
        answered("I would rather not."),
        asked("Say it aloud."),
        answered(""),
        answered("No."),
    ],
    "parallel_and_custom_calls": [
        asked("Check both, then patch."),
        called(
            'I look at both.\n{"command":"cat a.py"}\n{"command":"cat b.py"}',
            tool="bash",
            opens=["c1", "c2"],
            words="I look at both.",
        ),
        returned("b", "c2"),
        returned("a", "c1"),
        called("*** Begin Patch\n*** Update File: a.py", tool="apply_patch", opens=["c3"]),
        returned("done", "c3"),
        answered("Patched."),
    ],
    "old_functions": [
        asked("Weather in Oslo?"),
        called('{"city":"Oslo"}', tool="weather", opens=[]),
        returned("4 degrees"),
        answered("Cold."),
    ],
    "thoughts": [
        asked("Think."),
        thought("I should look first."),
        answered("Done."),
        thought("Step one.\nStep two."),
        thought("Hm."),
        answered("Yes."),
        called("{}", tool="ls", opens=["c1"]),
        returned("x", "c1"),
    ],
    "attachments": [
        asked("What is this?", images=2),
        asked(""),
        answered("A logo."),
        called("", tool="screenshot", opens=["s1"]),
        returned("shot", "s1", images=1),
    ],
    "odd_spellings": [
        asked("café / 1.0"),
        asked("cut in half \ufffd"),
        opaque(Role.ASSISTANT),
        opaque(Role.USER),
        opaque(Role.ASSISTANT),
        opaque(Role.ASSISTANT),
    ],
    "hosts": [
        injected("<environment_context>\n  <cwd>/src</cwd>\n</environment_context>", "environment"),
        asked(
            "<system-reminder>\nEnvironment of the session:\ncwd: /src\n</system-reminder>\n"
            "<system-reminder><total_tokens>100 tokens left</total_tokens></system-reminder>\nNever push to main.",
            said="Never push to main.",
            context="reminder:Environment of the session",
        ),
        asked(
            "Fix the parser.\n\n<environment_details>\nopen: a.py\n</environment_details>\n"
            "<system-reminder>\n# Plan Mode\nDo not edit.\n</system-reminder>",
            said="Fix the parser.",
            context="environment+reminder:Plan Mode",
        ),
        asked(
            "<system-reminder>\nThe user sent the following message:\nUse tabs.\n\n"
            "Please address this message and continue with your tasks.\n</system-reminder>",
            said="Use tabs.",
        ),
        injected("<system-reminder>[SYSTEM NOTIFICATION - NOT USER INPUT] a helper finished</system-reminder>"),
        injected(
            "The conversation history before this point was compacted into a summary:\n\n"
            "<summary>\nWe wrote a parser.\n</summary>",
            "client_summary",
        ),
        injected("What did we do so far?"),
        asked('Called the Read tool with the following input: {"filePath":"logo.png"}', said="", images=1),
        instructed("<budget>low</budget>", tag="budget"),
        instructed("Speak plainly."),
    ],
}


@pytest.mark.parametrize("name", VIEWS)
def test_every_recorded_form_is_seen_for_what_it_is(name: str) -> None:
    """Role, text, pairs, images and speaker of each message, compared whole."""
    assert [CHAT.view(item) for item in items_of(name)] == VIEWS[name]


def test_every_recorded_request_has_its_views() -> None:
    """No fixture goes unread."""
    assert {path.stem for path in REQUESTS.glob("*.json")} == set(VIEWS)


def test_parallel_calls_and_their_outputs_are_one_group() -> None:
    """A cut never stands between a message with several calls and the last of their outputs."""
    views = [CHAT.view(item) for item in items_of("parallel_and_custom_calls")]
    assert find_boundaries(views) == [0, 1, 4, 6, 7]
    assert (find_orphans(views), find_open_calls(views)) == ([], [])


def test_a_history_cut_inside_a_group_shows_what_is_missing() -> None:
    """One output of two leaves one call open; without their call both are orphans."""
    views = [CHAT.view(item) for item in items_of("parallel_and_custom_calls")]
    assert find_open_calls(views[:3]) == ["c1"]
    assert find_orphans(views[2:]) == ["c2", "c1"]


def test_a_thought_stays_with_what_follows_it() -> None:
    """No cut stands behind a message that only carries reasoning."""
    views = [CHAT.view(item) for item in items_of("thoughts")]
    assert find_boundaries(views) == [0, 1, 3, 6, 8]


@pytest.mark.parametrize(
    "text",
    [
        "<turn_aborted> shows up in my logs. Never delete them.",
        "<environment_context> is sent twice; find out why.",
        "<environment_context> and </environment_context> are tags: never send them.",
        "<system-reminder>x</system-reminder> Never push.\n<system-reminder>y</system-reminder> is ugly.",
        "# AGENTS.md instructions are wrong about tabs: use spaces.",
        "This session is being continued tomorrow. Never push before.",
        "Continue if you have next steps, but never push to main.",
        "Never push to main.\n\n## My request for Codex: that heading is ugly, rename it.",
        "Quote: <system-reminder>\nx\n</system-reminder>",
    ],
)
def test_a_person_may_speak_of_a_hosts_fragment(text: str) -> None:
    """Only a whole fragment is the host's; a sentence about one is the person's."""
    assert CHAT.view(CHAT.parse({"role": "user", "content": text})) == asked(text)


@pytest.mark.parametrize(
    ("before", "context"),
    [
        ("# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:", None),
        ("[CONTEXT COMPACTION] We wrote a parser.\n\n--- END OF CONTEXT SUMMARY: answer below ---", "client_summary"),
        ("<environment_context>\n/src\n</environment_context>\r", "environment"),
    ],
)
def test_words_behind_what_a_host_wrote_are_the_persons(before: str, context: str | None) -> None:
    """What an editor or a summary puts before the request, in the same text, is not said by the person."""
    text = f"{before}\n\nFix a.py."
    assert CHAT.view(CHAT.parse({"role": "user", "content": text})) == asked(text, said="Fix a.py.", context=context)


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nUse tabs.\n</INSTRUCTIONS>", "agents_md"),
        ("This session is being continued from a previous conversation. The work so far: …", "client_summary"),
        ("Another language model started to solve this problem and produced a summary: …", "client_summary"),
        ("[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns: …", "client_summary"),
        ("<hook_prompt id='1'>check</hook_prompt>", None),
        ("<system-reminder>\n7 files changed\n</system-reminder>", "reminder"),
        (" \n<environment_context>a</environment_context>\n<skill>b</skill>\n", "environment"),
    ],
)
def test_what_only_a_host_says_is_no_persons_message(text: str, context: str | None) -> None:
    """A message of whole fragments is context, or an event, and nobody's words."""
    assert CHAT.view(CHAT.parse({"role": "user", "content": text})) == injected(text, context)


@pytest.mark.parametrize("entry", [{"type": "new_kind", "new_kind": {"name": "x", "arguments": {"a": 1}}}, {}])
def test_a_call_of_a_kind_yet_unknown_still_pairs_with_its_output(entry: dict[str, object]) -> None:
    """Pairs are told by their id; a provider refuses one half without the other whatever its kind."""
    view = CHAT.view(CHAT.parse({"role": "assistant", "tool_calls": [{"id": "c1", **entry}]}))
    assert (view.kind, view.opens, view.text) == (ItemKind.CALL, ("c1",), '{"a":1}' if entry else "")


def test_many_fragments_take_linear_time() -> None:
    """A hostile message of a hundred thousand fragments is read once, from either end."""
    fragment = "<system-reminder>x</system-reminder>\n"
    text = fragment * 50_000 + "Go.\n" + fragment * 50_000
    view = CHAT.view(CHAT.parse({"role": "user", "content": text}))
    assert (view.said, view.context) == ("Go.", "reminder:x")


def test_an_output_may_name_its_call_in_a_list() -> None:
    """SWE-agent writes `tool_call_ids`; without the pair nothing of such a session could be compacted."""
    listed = CHAT.parse({"role": "tool", "content": "done", "tool_call_ids": ["c1"]})
    assert CHAT.view(listed) == returned("done", "c1")
