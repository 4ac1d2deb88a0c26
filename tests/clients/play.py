"""One long conversation: through a client, a gateway that is killed in the middle, and a provider that refuses what is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients.spelling import Thought
from tests.clients.subjects import Subject
from tests.clients.talks import Opening
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, call, say
from tests.drivers.gateway_process import gateway_process

from threadkeep import Config, Threadkeep
from threadkeep.client import ThreadSummary, Verdict

DEMANDS = "Never touch vendor/. Staging listens on 7443. Begin with the readme."
LONG_ASK = "Read the log first. " + "The build log follows for reference. " * 500
FOCUS = "mind the port"

PLANNED, LOOKED = Thought(sealed="SEALED PLAN", text="a plan"), Thought(sealed="SEALED LOOK", text="a look")
AGAIN = Thought(sealed="SEALED AGAIN", text="another look")


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of it: the answers the client showed, what the provider received and refused, and the store afterwards."""

    answers: dict[str, str | None]
    requests: dict[str, Received]
    side_requests: Sequence[Received]
    refusals: Sequence[str]
    threads: Sequence[ThreadSummary]
    verdict: Verdict


def script(subject: Subject) -> dict[str, Reply]:
    """Return what the provider says, by the name of the request it answers."""
    look = subject.tool.arguments("echo anchored")
    again = subject.tool.arguments("echo still anchored")
    replies = {
        "one": say("one done"),
        "two": say("two done"),
        "three": call(subject.tool.name, look, call_id="call_1", encrypted_reasoning=PLANNED.sealed, thought=PLANNED.text),
        "three, tool": say("three done", encrypted_reasoning=LOOKED.sealed, thought=LOOKED.text),
        "four": say("four done"),
        "five": say("five done"),
        "six": call(subject.tool.name, again, call_id="call_2", encrypted_reasoning=AGAIN.sealed, thought=AGAIN.text),
        "six, tool": say("six done"),
        "seven": say("seven done"),
        "eight": say("eight done"),
        "fork": say("fork done"),
    }
    if subject.branches:
        replies |= {"early": say("early done")}
    replies |= {"nine": say("nine done")}
    if subject.branches:
        replies |= {"nine again": say("nine again done")}
    return replies


def titles(received: Received) -> Reply | None:
    """Answer the request for a title that opencode makes beside a conversation."""
    return say("A title") if b"You are a title generator" in received.raw else None


async def play(subject: Subject, opening: Opening, folder: Path) -> Played:
    """Play it: four turns, one with a command that really runs; `/compact`; three more; kill -9 and a new gateway; a new client,
    resumed; a fork at the end and, where it can, one before the compaction; the compaction undone; a turn, taken back and retold.
    """
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "threadkeep.db"
    replies = script(subject)
    strict = subject.wire != "responses"
    answers: dict[str, str | None] = {}
    async with ScriptedProvider(list(replies.values()), enforcing=True, alternating=strict, beside=titles) as provider:
        async with gateway_process(store, upstream=provider.url) as gateway, opening(folder, gateway.base_url) as talk:
            for name, text in (("one", DEMANDS), ("two", LONG_ASK), ("three", "THREE"), ("four", "FOUR")):
                answers[name] = await talk.say(text)
            answers["compact"] = await talk.say(f"tk compact {FOCUS}")
            for name in ("five", "six", "seven"):
                answers[name] = await talk.say(name.upper())
            await gateway.kill()
        async with gateway_process(store, upstream=provider.url) as gateway, opening(folder, gateway.base_url, talk) as talk:
            answers["eight"] = await talk.say("EIGHT")
            answers["fork"] = await (await talk.fork()).say("ELSEWHERE")
            if subject.branches:
                answers["early"] = await (await talk.fork(before=3)).say("OTHERWISE")
            answers["undo"] = await talk.say("tk undo")
            answers["nine"] = await talk.say("NINE")
            if subject.branches:
                await talk.revert(to=11)
                answers["nine again"] = await talk.say("NINE AGAIN")
    async with Threadkeep(Config(store=str(store))) as tk:
        threads, verdict = await tk.threads(), await tk.verify()
    return Played(
        answers=answers,
        requests=dict(zip(replies, provider.requests, strict=True)),
        side_requests=provider.side_requests,
        refusals=provider.refusals,
        threads=threads,
        verdict=verdict,
    )
