"""Every client through a long conversation with a compaction in it: what the provider received, asserted whole.

The conversation is played once for each client and every test looks at what came of it; see `tests.clients.play`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest
from tests.clients.play import AGAIN, DEMANDS, FOCUS, LONG_ASK, LOOKED, PLANNED, Played, play
from tests.clients.spelling import BETWEEN, Thought, answered, arranged, ran, steady, user
from tests.clients.subjects import SUBJECTS, Installed, Subject, opening_of
from tests.doubles.prefix_growth import prefix_faults
from tests.doubles.provider_rules import count_markers
from tests.doubles.script import JsonObject

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

# Beside the history, in one wire or another; what is not here changes from turn to turn by the client's own will.
LASTING = (
    *("model", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "store", "include"),
    *("max_output_tokens", "max_tokens", "max_completion_tokens", "stream", "stream_options", "thinking", "output_config"),
    *("context_management", "prompt_cache_key", "promptCacheKey"),
)

CLOSING = "</session_compact_state>"
CUT = re.compile(r" \[… ([\d,]+) characters …\] ")
POINTER = re.compile(r" \(in full at #\d+\)\Z")

Plays = Callable[[str], Awaitable[Played]]


# The tests of one client run in one process, so that its conversation is played once.
TOGETHER = {name: pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in SUBJECTS}


@pytest.fixture(params=TOGETHER.values())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def subject(name: str) -> Subject:
    return SUBJECTS[name]


@pytest.fixture(scope="session")
def plays(installed_once: Installed, tmp_path_factory: pytest.TempPathFactory) -> Plays:
    """Return a function that plays the conversation with a client, once for all tests that ask."""
    played: dict[str, Played | AssertionError] = {}

    async def of(name: str) -> Played:
        if name not in played:
            opening = await opening_of(SUBJECTS[name], installed_once)
            folder = tmp_path_factory.mktemp("client") / re.sub(r"\W+", "-", name)
            try:
                played[name] = await play(SUBJECTS[name], opening, folder)
            except AssertionError as error:
                played[name] = error
        outcome = played[name]
        if isinstance(outcome, AssertionError):
            raise outcome
        return outcome

    return of


@pytest.fixture
async def played(name: str, plays: Plays) -> Played:
    return await plays(name)


def state_in(played: Played) -> str:
    """Return threadkeep's state as the provider first saw it, from its first word to its last."""
    texts = [text for item in played.requests["five"].history for text in texts_of(item)]
    (state,) = [text for text in texts if CLOSING in text]
    return state[: state.rindex(CLOSING) + len(CLOSING)]


def shortened_in(played: Played) -> str:
    """Return the long message as it stands behind the state: once, its beginning and its end, and how much stood between."""
    texts = [text for item in played.requests["five"].history for joined in texts_of(item) for text in joined.split(BETWEEN)]
    (shortened,) = [text for text in texts if text.startswith("Read the log first.")]
    head, left_out, tail = CUT.split(POINTER.sub("", shortened))
    said = LONG_ASK.strip()
    assert (said[: len(head)], said[-len(tail) :], int(left_out.replace(",", ""))) == (head, tail, len(said) - len(head + tail))
    return shortened


def texts_of(item: JsonObject) -> list[str]:
    content = item.get("content") or []
    return [content] if isinstance(content, str) else [part["text"] for part in content if "text" in part]


def histories(subject: Subject, played: Played) -> dict[str, list[JsonObject]]:
    """Return what each request must hold, given only what the client says about its world and the words of the state."""
    wire, tool = subject.wire, subject.tool
    thinks = wire != "chat"
    planned, looked = (PLANNED, LOOKED) if thinks else (None, None)

    def look(plan: Thought | None, second: Thought | None) -> list[JsonObject]:
        return [
            *ran(wire, tool, "echo anchored", "anchored", call_id="call_1", thought=plan),
            *answered(wire, "three done", second),
        ]

    opening = [steady(wire, item) for item in played.requests["one"].history]
    head, one = opening[: subject.head], opening[subject.head :]
    two = [*one, *answered(wire, "one done"), user(wire, LONG_ASK)]
    three = [*two, *answered(wire, "two done"), user(wire, "THREE")]
    after_three = ran(wire, tool, "echo anchored", "anchored", call_id="call_1", thought=planned)
    four = [*three, *look(planned, looked), user(wire, "FOUR")]

    # Thinking from before the compaction is bound to a history that is no longer sent.
    binds = wire == "messages"
    kept = look(None, None) if binds else look(planned, looked)
    world = one if subject.head == 0 and len(texts_of(one[0])) > 1 else []
    # A history may not begin with the system's words: those that a client froze into it stand behind the state.
    before, behind = world[:1], world[1:]
    tail = [user(wire, "THREE"), *kept, user(wire, "FOUR"), *answered(wire, "four done"), user(wire, "FIVE")]
    # Where the frontier has room for the answer before that turn, it begins with it.
    before_three = answered(wire, "two done")
    if before_three[0] in [steady(wire, item) for item in played.requests["five"].history]:
        tail = [*before_three, *tail]
    # The first message is what the session is for: the state tells it.
    said = [user(wire, shortened_in(played))]
    five = [*before, user(wire, state_in(played)), *behind, *said, *tail]
    again = ran(wire, tool, "echo still anchored", "still anchored", call_id="call_2", thought=AGAIN if thinks else None)
    since = [*answered(wire, "five done"), user(wire, "SIX")]
    six = [*five, *since]
    seven = [*six, *again, *answered(wire, "six done"), user(wire, "SEVEN")]
    eight = [*seven, *answered(wire, "seven done"), user(wire, "EIGHT")]
    fork = [*eight, *answered(wire, "eight done"), user(wire, "ELSEWHERE")]
    unbound = ran(wire, tool, "echo still anchored", "still anchored", call_id="call_2") if binds else again
    # Undone, no thinking of either time is left: a block may be taken out only with all before it.
    past = [
        *three,
        *kept,
        user(wire, "FOUR"),
        *answered(wire, "four done"),
        user(wire, "FIVE"),
        *since,
        *unbound,
        *answered(wire, "six done"),
    ]
    past += [user(wire, "SEVEN"), *answered(wire, "seven done"), user(wire, "EIGHT"), *answered(wire, "eight done")]
    told = {
        "one": one,
        "two": two,
        "three": three,
        "three, tool": [*three, *after_three],
        "four": four,
        "five": five,
        "six": six,
        "six, tool": [*six, *again],
        "seven": seven,
        "eight": eight,
        "fork": fork,
    }
    if subject.branches:
        told |= {"early": [*two, *answered(wire, "two done"), user(wire, "OTHERWISE")]}
    told |= {"nine": [*past, user(wire, "NINE")]}
    if subject.branches:
        told |= {"nine again": [*past, user(wire, "NINE AGAIN")]}
    strings = isinstance(played.requests["one"].history[-1]["content"], str)
    return {name: arranged(wire, [*head, *items], strings=strings) for name, items in told.items()}


async def test_every_turn_is_answered(subject: Subject, played: Played) -> None:
    """The client notices nothing: no turn is lost to the compaction, the kill, the fork or the undo."""
    answers = dict(played.answers)
    told, undone = answers.pop("compact") or "", answers.pop("undo")
    assert answers == {name: f"{name} done" for name in answers}
    assert re.match(r"Compacted: [\d,]+ → [\d,]+ tokens \(\d\d % smaller\), 0 model calls\.", told)
    assert undone is not None


async def test_no_request_is_refused(played: Played) -> None:
    """Pairs, roles, sealed contents, bound thinking and markers: the provider that checks them all took every request."""
    assert played.refusals == []


async def test_what_the_provider_received(subject: Subject, played: Played) -> None:
    """Whole histories, request by request: the client's own until `/compact`, then its world, the state and all after the cut."""
    received = {name: [steady(subject.wire, item) for item in request.history] for name, request in played.requests.items()}
    assert received == histories(subject, played)


async def test_what_was_demanded_is_still_there(played: Played) -> None:
    """After the compaction every demand stands in what is sent, word for word, and the focus the user gave in the state."""
    sent = "\n".join(text for item in played.requests["five"].history for text in texts_of(item))
    assert [words for words in DEMANDS.split(". ") if words.rstrip(".") not in sent] == []
    assert FOCUS in state_in(played)


async def test_nothing_but_the_history_is_touched(subject: Subject, played: Played) -> None:
    """Everything that lasts in a conversation goes out as in its first request, up to its end; a fork has its own key."""
    main = [request for name, request in played.requests.items() if name not in ("fork", "early", "nine again")]
    lasting = [{key: request.body[key] for key in LASTING if key in request.body} for request in main]
    assert lasting == [lasting[0]] * len(main)
    assert all(request.authorised for request in main)


@pytest.mark.parametrize(
    "name", [TOGETHER[name] for name in ("codex 0.150.1", "codex 0.166.0", "opencode responses", "pi responses")]
)
async def test_the_cache_key_is_the_client_s_own(name: str, plays: Plays) -> None:
    """One key before, in and after the compaction, after the restart and after the undo; a fork brings its own."""
    requests = (await plays(name)).requests
    keys = {turn: request.body["prompt_cache_key"] for turn, request in requests.items()}
    forks = {keys.pop(turn) for turn in ("fork", "early")}
    # pi takes a turn back by forking before it.
    retold = keys.pop("nine again")
    assert set(keys.values()) == {keys["one"]}
    assert keys["one"] not in forks
    assert (retold == keys["one"]) == (name != "pi responses")


async def test_the_command_and_its_answer_never_reach_the_model(played: Played) -> None:
    """Neither a command nor what the gateway said about it stands in any request."""
    spoken = (b"/compact", b"tk undo", b"things had to survive")
    assert [name for name, request in played.requests.items() if any(words in request.raw for words in spoken)] == []


async def test_the_prefix_moves_once_for_its_checkpoint(played: Played) -> None:
    """What the provider is sent only grows, but for the one request in which the state first appears."""
    assert prefix_faults(played.requests.values()) == []


async def test_markers_stay_within_what_a_provider_takes(subject: Subject, played: Played) -> None:
    """Rewriting adds at most the one marker a client leaves free."""
    counts = {name: count_markers(dict(request.body)) for name, request in played.requests.items()}
    assert [name for name, count in counts.items() if count > 4] == []


async def test_everything_is_on_record(subject: Subject, played: Played) -> None:
    """The store proves itself after the kill; one thread holds the conversation, every branch begins in it."""
    assert played.verdict.problems == ()
    (root,) = [thread for thread in played.threads if thread.parent is None]
    assert root.title == DEMANDS
