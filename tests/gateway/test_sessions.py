"""Two conversations that begin alike never mix: the names clients give them separate what content cannot."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.doubles.script import call, say
from tests.gateway.client import WIRES, Client, Provider, answer, person, talk, text_of, threads

from threadkeep import Config, Threadkeep
from threadkeep.dialects import find_dialect
from threadkeep.gateway.conversation.conversations import RecordedConversations
from threadkeep.gateway.conversation.rules import Rules

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

LONG = "The build log follows for reference. " * 60
QUESTION = "What did we do so far?"
SUMMARY = "## Goal\nTidy up.\n\n## Done\nNothing yet that matters.\n\n## Next\nGo on where we were. " * 3
# opencode after its own compaction: every session begins with this question and a summary that may say the same.
OPENINGS = {
    "opencode": lambda wire: [person(wire, QUESTION), answer(wire, SUMMARY)],
    "claude code": lambda wire: [person(wire, f"This session is being continued from a previous conversation. {SUMMARY}")],
    "codex": lambda wire: [
        person(wire, f"Another language model started to solve this problem and produced a summary: {SUMMARY}")
    ],
}


def named(one: Client, session: str) -> Client:
    """Return a new conversation of another name through the same gateway, to a provider of its own."""
    return Client(wire=one.wire, conversations=one.conversations, provider=Provider(one.wire), headers={"x-session-id": session})


async def parents(tk: Threadkeep) -> list[str | None]:
    return [(await tk.backend.store.get(thread.id)).parent for thread in await threads(tk)]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("client", OPENINGS)
@pytest.mark.moves_prefix(reason="the clients compact by themselves")
async def test_a_session_that_compacts_by_itself_never_gets_anothers_rules(tk: Threadkeep, wire: WireName, client: str) -> None:
    """Two folders, two names, one gateway: after each client's own compaction and ours, each has its own rule and no other."""
    alpha = talk(tk, wire, x_session_id="ses_alpha")
    beta = named(alpha, "ses_beta")
    rules = {"alpha": "Never mention customer ALPHA-111.", "beta": "Always greet customer BETA-222."}
    for each, rule in ((alpha, rules["alpha"]), (beta, rules["beta"])):
        await each.ask(rule)
        await each.ask(f"Begin. {LONG}")
    for each in (alpha, beta):
        each.history = list(OPENINGS[client](wire))
        for turn in range(3):
            await each.ask(f"Go on, step {turn}. {LONG}")
        await each.ask("/compact")
        await each.ask("What are my rules?")
    told = {
        name: "".join(text_of(request.history) for request in each.provider.requests)
        for name, each in (("alpha", alpha), ("beta", beta))
    }
    assert [rules["beta"] in told["alpha"], rules["alpha"] in told["beta"]] == [False, False]
    assert rules["alpha"] in text_of(alpha.provider.last)
    assert rules["beta"] in text_of(beta.provider.last)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("opening", ["<environment_context>\n<cwd>/w</cwd>\n</environment_context>", None])
async def test_the_same_world_and_the_same_greeting_make_no_fork(tk: Threadkeep, wire: WireName, opening: str | None) -> None:
    """Codex sessions in one folder share the environment item, people greet alike: two threads, none the other's fork."""
    one = talk(tk, wire, x_session_id="ses_1")
    two = named(one, "ses_2")
    for each in (one, two):
        each.history = [person(wire, opening)] if opening else []
        await each.ask("Hi.", say("Hello."))
        await each.ask("First." if each is one else "Second.")
    assert await parents(tk) == [None, None]
    assert two.provider.requests[-1].raw == two.forked(length=-1).body()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_fork_under_a_new_name_is_still_a_fork(tk: Threadkeep, wire: WireName, *, restarted: bool) -> None:
    """The same long history under a new name keeps the checkpoint made of it, also after a restart of the gateway."""
    client = talk(tk, wire, x_session_id="ses_1")
    await client.ask("Never touch vendor/.")
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    await client.ask("Go on.")
    fork = client.forked(headers={"x-session-id": "ses_2"})
    if restarted:
        fork.conversations = talk(tk, wire).conversations
    await fork.ask("Another way.")
    await client.ask("My way.")
    await fork.ask("And on.")
    assert all("session_compact_state" in text_of(each.history) for each in client.provider.requests[-3:])
    assert "My way." not in text_of(client.provider.last)
    first, second = await threads(tk)
    assert {None, first.id, second.id} > set(await parents(tk)) > {None}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="the client compacts by itself")
async def test_a_fork_behind_a_clients_own_compaction_keeps_what_was_demanded(tk: Threadkeep, wire: WireName) -> None:
    """A new name with a history that goes on for a while behind the summary is the same conversation, rules and all."""
    client = talk(tk, wire, x_session_id="ses_1")
    await client.ask("Never touch vendor/.")
    client.history = [person(wire, QUESTION), answer(wire, SUMMARY)]
    for turn in range(3):
        await client.ask(f"Step {turn}. {LONG}")
    fork = client.forked(headers={"x-session-id": "ses_2"})
    await fork.ask("Another way.")
    await fork.ask("/compact")
    await fork.ask("What must not be touched?")
    assert "Never touch vendor/." in text_of(fork.provider.last)


@pytest.mark.moves_prefix(reason="the client compacts by itself")
async def test_a_fork_that_names_what_it_forked_is_its_fork(tk: Threadkeep) -> None:
    """Codex says which of its threads a new one comes from: right behind a summary too, where content tells nothing."""
    client = talk(tk, "responses", thread_id="one")
    await client.ask("Never touch vendor/.")
    client.history = [person("responses", "Never touch vendor/."), *OPENINGS["codex"]("responses")]
    await client.ask("Go on.")
    other = named(client, "other")
    other.history = [*client.history[:2]]
    await other.ask("Go on elsewhere.")
    metadata = json.dumps({"request_kind": "turn", "forked_from_thread_id": "one"})
    fork = client.forked(length=2, headers={"thread-id": "two", "x-codex-turn-metadata": metadata})
    await fork.ask("Another way.")
    await fork.ask("And on.")
    first, _, _ = await threads(tk)
    assert await parents(tk) == [None, None, first.id]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="the client goes back in its history")
async def test_a_session_that_goes_back_stays_in_its_own_thread(tk: Threadkeep, wire: WireName) -> None:
    """Where two sessions said the same for a while, an edit of one leaves from its own thread, not from the other's."""
    one = talk(tk, wire, x_session_id="ses_1")
    two = named(one, "ses_2")
    for text in ("Hi.", "How are you?", "Fine, too."):
        await one.ask(text, say("Well."))
    await two.ask("Hi.", say("Well."))
    await two.ask("How is it?", say("Well."))
    two.history = two.history[:2]
    for text in ("How are you?", "Fine, too."):
        await two.ask(text, say("Well."))
    first = (await threads(tk))[0]
    assert first.id not in await parents(tk)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["alpha", "beta"]),
        st.sampled_from(["ask", "rule", "tool", "own compaction", "kept tail", "compact", "edit", "restart", "fork"]),
        st.integers(0, 2),
    ),
    max_size=12,
)
# Each demands something first, and is compacted by its client and by the gateway in the end.
FIRST = (("ask", 0), ("rule", 0))
LAST = (("own compaction", 0), ("ask", 1), ("ask", 2), ("compact", 0), ("ask", 0))
WORDS = {"alpha": "ALPHA-111", "beta": "BETA-222"}


@dataclass(slots=True)
class Side:
    """One conversation with a word of its own; everything else it says, the other one says too."""

    client: Client
    word: str
    naming: str
    named: int = 0
    called: int = 0

    def name(self) -> None:
        """Name the conversation as clients do: in a header, or in the body; some only tell their folder."""
        self.client.headers, self.client.fields = _name(self.client.wire, self.naming, f"{self.word[:5]}-{self.named}")

    async def step(self, kind: str, number: int) -> None:
        client, wire = self.client, self.client.wire
        match kind:
            case "ask":
                await client.ask(f"Go on {number}. {LONG}", say(f"Done with {number}. {LONG}" if number else "Done."))
            case "rule":
                await client.ask(f"Never mention {self.word}.", say("Understood."))
            case "tool":
                self.called += 1
                name = f"call_{self.called}"
                await client.ask("Look.", call("bash", {"command": "ls"}, call_id=name))
                await client.tool({name: f"README.md {LONG}"}, say("One file."))
            case "own compaction" | "kept tail":
                tail = client.history[_last_asked(client.history) :] if kind == "kept tail" else []
                client.history = [*list(OPENINGS.values())[number](wire), *tail]
            case "compact":
                await client.ask("/compact")
            case "edit":
                client.history = client.history[: _last_asked(client.history)]
            case "fork":
                self.named += 1
                self.name()
            case _:
                assert kind == "restart"


def _kinds(item: Json) -> set[str]:
    parts: list[Json] = item["content"] if "content" in item else item["parts"]
    return {kind for part in parts for kind in (*part, str(part.get("type")))}


def _last_asked(history: list[Json]) -> int:
    """Return where the newest message of a person stands."""
    asked = [
        index
        for index, item in enumerate(history)
        if item.get("role") == "user" and not {"tool_result", "functionResponse"} & _kinds(item)
    ]
    return asked[-1] if asked else 0


def _name(wire: WireName, naming: str, name: str) -> tuple[dict[str, str], Json]:
    """Return the headers and fields that name a conversation."""
    match naming, wire:
        case "header", _:
            return {"x-session-id": name}, {}
        case "field", "messages":
            return {}, {"metadata": {"user_id": json.dumps({"device_id": "d", "session_id": name})}}
        case "field", _:
            return {}, {"prompt_cache_key": name}
        case _, "responses":
            return {}, {"instructions": f"You work in /{name[:5]}."}
        case _, "chat":
            return {}, {"head": [{"role": "system", "content": f"You work in /{name[:5]}."}]}
        case _, "messages":
            return {}, {"system": f"You work in /{name[:5]}."}
        case _:
            return {}, {"systemInstruction": {"parts": [{"text": f"You work in /{name[:5]}."}]}}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("naming", ["header", "field", "folder"])
@pytest.mark.moves_prefix(reason="the clients compact by themselves and go back")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
@example(steps=[])
def test_no_word_of_one_session_reaches_the_other(wire: WireName, naming: str, steps: list[tuple[str, str, int]]) -> None:
    """Colliding beginnings, answers, outputs and summaries in any order: nothing of one in any request of the other."""
    # Not `anyio.run`: an async fixture of the whole run, where this process has one, counts for anyio as a running loop.
    asyncio.run(_interleaved(wire, naming, steps))


async def _interleaved(wire: WireName, naming: str, steps: list[tuple[str, str, int]]) -> None:
    async with Threadkeep(Config(store="memory:", model_context_window=4_000)) as tk:
        rules = Rules(auto_compact="on")
        client = talk(tk, wire, rules=rules)
        sides = {"alpha": Side(client, WORDS["alpha"], naming), "beta": Side(named(client, ""), WORDS["beta"], naming)}
        for side in sides.values():
            side.name()
        first, last = ([(name, *step) for name in sides for step in part] for part in (FIRST, LAST))
        for name, kind, number in [*first, *steps, *last]:
            if kind == "restart":
                fresh = RecordedConversations(tk, find_dialect(wire), rules=rules, upstream="https://provider.test")
                for side in sides.values():
                    side.client.conversations = fresh
            await sides[name].step(kind, number)
        told = {name: [text_of(request.history) for request in side.client.provider.requests] for name, side in sides.items()}
        assert not any(WORDS["beta"] in text for text in told["alpha"])
        assert not any(WORDS["alpha"] in text for text in told["beta"])
        assert (await tk.verify()).problems == ()
