"""`threadkeep chat` through a pipe: lines in, answers out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.chat.chat_process import piped
from tests.doubles.model_server import ModelServer, events, streamed
from tests.session.mcp_program import SERVER

from threadkeep.testing.model_checks import make_json_reply

pytestmark = pytest.mark.anyio

ESCAPE = "\x1b]0;owned\x07"


async def test_answers_alone_go_to_the_pipe(tmp_path: Path) -> None:
    """Two lines, two turns of one thread, nothing else on stdout or stderr."""
    async with ModelServer([streamed("chat", "Four."), streamed("chat", "Five.")]) as server:
        talked = await piped(tmp_path, "Two and two?\nAnd one more?\n", "--model", f"tiny@{server.origin}/v1")
    assert (talked.code, talked.out, talked.err) == (0, "Four.\nFive.\n", "")
    sent = [message["content"] for message in server.requests[1].history if message["role"] in ("user", "assistant")]
    assert (sent[0].endswith("Two and two?"), sent[1:]) == (True, ["Four.", "And one more?"])


@pytest.mark.slow
@pytest.mark.parametrize(("model", "dialect"), [("openai:m-1", "responses"), ("anthropic:m-1", "messages")])
async def test_the_two_providers_are_talked_to_in_their_own_language(tmp_path: Path, model: str, dialect: str) -> None:
    """Any address that speaks it will do; the key comes from the provider's usual variable."""
    pytest.importorskip(model.partition(":")[0])
    async with ModelServer([streamed(dialect, "Four."), streamed(dialect, "Five.")]) as server:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{server.origin}/v1"}
        keys |= {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.origin}
        talked = await piped(tmp_path, "Two and two?\nAnd one?\n", "--model", model, **keys)
    assert (talked.code, talked.out, talked.err) == (0, "Four.\nFive.\n", "")
    assert [request.path for request in server.requests] == [
        {"responses": "/v1/responses", "messages": "/v1/messages"}[dialect]
    ] * 2
    assert "Two and two?" in str(server.requests[1].history)


async def test_a_text_of_several_lines_is_one_turn(tmp_path: Path) -> None:
    """Between triple quotes, line ends are part of what is said."""
    async with ModelServer([streamed("chat", "Noted.")]) as server:
        talked = await piped(tmp_path, '"""\none\n\ntwo\n"""\n', "--model", f"tiny@{server.origin}/v1")
    assert talked.out == "Noted.\n"
    assert server.requests[0].history[-1]["content"].endswith("one\n\ntwo")


async def test_with_json_each_turn_is_an_object(tmp_path: Path) -> None:
    """Machines get one line a turn; commands print nothing there."""
    reply = events(
        {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 70, "completion_tokens": 2, "cost": 0.25}},
        "[DONE]",
    )
    async with ModelServer([reply]) as server:
        talked = await piped(tmp_path, "Hello\n/context\n", "t1", "--json", "--model", f"tiny@{server.origin}/v1")
    told = json.loads(talked.out)
    assert {name: told[name] for name in ("thread", "text", "requests", "input_tokens", "output_tokens", "cost_usd")} == {
        "thread": "t1",
        "text": "Hi.",
        "requests": 1,
        "input_tokens": 70,
        "output_tokens": 2,
        "cost_usd": 0.25,
    }


async def test_an_error_is_one_sentence_and_the_rest_is_still_said(tmp_path: Path) -> None:
    """A provider that refuses one request ends one turn; where nobody looks on, the exit code tells."""
    refusal = make_json_reply({"error": {"message": "no such model", "type": "invalid_request_error"}}, status=404)
    async with ModelServer([refusal, streamed("chat", "Here.")]) as server:
        talked = await piped(tmp_path, "One?\n/nonsense\nTwo?\n", "--model", f"tiny@{server.origin}/v1")
    assert (talked.code, talked.out) == (1, "Here.\n")
    assert [line.startswith("threadkeep: ") for line in talked.err.splitlines()] == [True, True]
    assert "there is no /nonsense" in talked.err


async def test_without_a_model_it_says_how_to_name_one(tmp_path: Path) -> None:
    """Nothing was set: the message shows the three forms, and no thread is made."""
    talked = await piped(tmp_path, "Hello\n")
    assert (talked.code, talked.out) == (1, "")
    assert "--model openai:NAME, anthropic:NAME or NAME@URL" in talked.err


@pytest.mark.slow
async def test_a_thread_remembers_whom_it_talked_to(tmp_path: Path) -> None:
    """Gone on with by the beginning of its id, it needs no model named, and its history goes out again."""
    async with ModelServer([streamed("chat", "Blue."), streamed("chat", "You said so.")]) as server:
        await piped(tmp_path, "My colour is blue.\n", "colours", THREADKEEP_CHAT_MODEL=f"tiny@{server.origin}/v1")
        talked = await piped(tmp_path, "Which colour?\n", "col")
    assert (talked.code, talked.out) == (0, "You said so.\n")
    assert "My colour is blue." in str(server.requests[1].history)


async def test_what_a_model_says_cannot_drive_the_terminal(tmp_path: Path) -> None:
    """Escape sequences in an answer are not passed on; in the thread they are kept."""
    async with ModelServer([streamed("chat", f"Title{ESCAPE} set.")]) as server:
        talked = await piped(tmp_path, "Hello\n", "--model", f"tiny@{server.origin}/v1")
    assert talked.out == "Title set.\n"


async def test_commands_change_the_thread_and_say_so(tmp_path: Path) -> None:
    """Rolled back, the first question is gone from what the model sees; recall still finds what was said since."""
    async with ModelServer([streamed("chat", "Noted."), streamed("chat", "Nothing yet.")]) as server:
        lines = "Remember the word kelp.\n/rollback\nWhat do you know?\n/recall nothing yet\n/model\n/memory\n/state\n/help\n"
        talked = await piped(tmp_path, lines, "t1", "--model", f"tiny@{server.origin}/v1")
        assert f"talking to tiny@{server.origin}/v1" in talked.out
    assert (talked.code, talked.err) == (0, "")
    assert "kelp" not in str(server.requests[1].history)
    for expected in (
        "taken back; the thread goes on from #",
        "Nothing yet.",
        "t1#",
        "not compacted: the window is the whole history",
        "nothing is remembered yet",
        "/rollback [N]",
    ):
        assert expected in talked.out


async def test_where_it_is_told_once_and_then_by_what_changed(tmp_path: Path) -> None:
    """The folder and its instruction file go out with the first request; the second turn adds nothing about the world."""
    (tmp_path / "AGENTS.md").write_text("Answer in one word.", encoding="utf-8")
    async with ModelServer([streamed("chat", "Yes."), streamed("chat", "No.")]) as server:
        await piped(tmp_path, "One?\nTwo?\n", "--model", f"tiny@{server.origin}/v1")
    sent = [str(request.history) for request in server.requests]
    assert [text.count("Answer in one word.") for text in sent] == [1, 1]
    assert str(tmp_path) in sent[0]


@pytest.mark.slow
async def test_tools_of_an_mcp_server_can_be_used(tmp_path: Path) -> None:
    """A command line is enough; the call, what it returned and the answer are one turn."""
    program = tmp_path / "tides.py"
    program.write_text(SERVER, encoding="utf-8")
    function = {"name": "tide", "arguments": '{"place": "Brest"}'}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    asks = events({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}, "[DONE]")
    async with ModelServer([asks, streamed("chat", "3 m.")]) as server:
        mcp = ("--mcp", f"{sys.executable} {program}")
        talked = await piped(tmp_path, "How high?\n", *mcp, "--model", f"tiny@{server.origin}/v1")
    assert (talked.code, talked.out) == (0, "3 m.\n")
    assert server.requests[1].history[-1] == {"role": "tool", "tool_call_id": "c1", "content": "Brest: 3 m"}


@pytest.mark.slow
async def test_an_mcp_server_that_cannot_be_started_is_one_sentence(tmp_path: Path) -> None:
    """Nobody is talked to."""
    talked = await piped(tmp_path, "Hello\n", "--mcp", "no-such-program", "--model", "tiny@http://127.0.0.1:9/v1")
    assert (talked.code, talked.out) == (1, "")
    assert talked.err.startswith("threadkeep: the MCP server 'no-such-program' cannot be used: ")
