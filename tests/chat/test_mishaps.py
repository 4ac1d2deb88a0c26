"""What goes wrong around a chat is one sentence, and the chat goes on."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from tests.chat.chat_process import piped
from tests.doubles.model_server import ModelServer, streamed

import threadkeep
from threadkeep.cli.chat_session import NO_FOLDER, describe_world

pytestmark = pytest.mark.anyio

LEAVES_NO_FOLDER = ("sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh")


async def test_a_folder_whose_name_is_no_text_is_told_as_far_as_it_is(tmp_path: Path) -> None:
    """The turn has its answer, and the model reads a replacement mark."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes no such name")
    async with ModelServer([streamed("chat", "Here.")]) as server:
        store = str(tmp_path / "chat.db")
        talked = await piped(
            folder, "Where?\n", "--model", f"tiny@{server.origin}/v1", THREADKEEP_STORE=store, HOME=str(tmp_path)
        )
    assert (talked.code, talked.out, talked.err) == (0, "Here.\n", "")
    assert "caf\ufffd" in str(server.requests[0].history)


async def test_a_chat_that_begins_in_a_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    """One sentence, and nobody is talked to."""
    gone = tmp_path / "gone"
    gone.mkdir()
    talked = await piped(gone, "Where?\n", "--model", "tiny@http://127.0.0.1:9/v1", starter=LEAVES_NO_FOLDER)
    assert (talked.code, talked.out) == (1, "")
    assert talked.err.startswith("threadkeep: the working folder is gone")


def test_a_folder_that_goes_while_one_talks_is_told_as_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The world has no folder then, and everything else as it was."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    before = describe_world("m", warn=pytest.fail)
    gone.rmdir()
    assert describe_world("m", warn=pytest.fail) == {**before, "cwd": NO_FOLDER}


@pytest.mark.skipif(sys.platform != "linux", reason="it needs a file that nobody can read, whoever they are")
async def test_instructions_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    """The turn has its answer without them."""
    (tmp_path / "AGENTS.md").symlink_to("/proc/self/mem")
    async with ModelServer([streamed("chat", "Fine.")]) as server:
        talked = await piped(tmp_path, "Hello\n", "--model", f"tiny@{server.origin}/v1")
    assert (talked.code, talked.out, talked.err) == (0, "Fine.\n", "")
    assert "AGENTS.md" not in str(server.requests[0].history)


async def test_numbers_beyond_any_count_are_refused_by_name(tmp_path: Path) -> None:
    """Thousands of digits are no number of turns, and name no thread."""
    digits = "7" * 5_000
    async with ModelServer([streamed("chat", "Still here.")]) as server:
        lines = f"/rollback {digits}\n/resume {digits}\nHello\n"
        talked = await piped(tmp_path, lines, "t1", "--model", f"tiny@{server.origin}/v1")
    assert (talked.code, talked.out) == (1, "Still here.\n")
    assert [line.startswith("threadkeep: ") for line in talked.err.splitlines()] == [True, True]
    assert "is no number of turns" in talked.err


async def test_more_turns_than_there_are_are_not_taken_back(tmp_path: Path) -> None:
    """The error says how many there are, and the model still sees them."""
    async with ModelServer([streamed("chat", "Noted."), streamed("chat", "Kelp.")]) as server:
        lines = "Remember the word kelp.\n/rollback 99\nWhich word?\n"
        talked = await piped(tmp_path, lines, "t1", "--model", f"tiny@{server.origin}/v1")
    assert (talked.code, talked.out) == (1, "Noted.\nKelp.\n")
    assert talked.err == "threadkeep: thread 't1': has 1 turn, so 99 cannot be taken back; name a number up to 1\n"
    assert "kelp" in str(server.requests[1].history)


@pytest.mark.slow
async def test_bytes_that_are_no_text_are_said_as_far_as_they_are(tmp_path: Path) -> None:
    """Whatever the locale makes of them."""
    for locale in ("C.UTF-8", "POSIX"):
        async with ModelServer([streamed("chat", "I see.")]) as server:
            talked = await piped(tmp_path, b"caf\xe9?\n", "--model", f"tiny@{server.origin}/v1", LANG=locale)
        assert (talked.code, talked.out, talked.err) == (0, "I see.\n", "")
        assert server.requests[0].history[-1]["content"].endswith("caf\ufffd?")


async def test_a_text_of_several_lines_is_no_command(tmp_path: Path) -> None:
    """What begins with a slash between triple quotes is said to the model."""
    async with ModelServer([streamed("chat", "Listed.")]) as server:
        talked = await piped(tmp_path, '"""\n/etc/hosts\n/quit\n"""\n', "--model", f"tiny@{server.origin}/v1")
    assert (talked.code, talked.out) == (0, "Listed.\n")
    assert server.requests[0].history[-1]["content"].endswith("/etc/hosts\n/quit")


async def test_a_text_that_is_not_ended_is_not_said_and_that_is_told(tmp_path: Path) -> None:
    """Half of what somebody meant to say is worse than an error."""
    async with ModelServer([streamed("chat", "Yes.")]) as server:
        talked = await piped(tmp_path, 'Ready?\n"""\ndelete all\n', "--model", f"tiny@{server.origin}/v1")
    assert (talked.code, talked.out, len(server.requests)) == (1, "Yes.\n", 1)
    assert talked.err == 'threadkeep: the input ended inside a text that began with """; nothing of it was sent\n'


async def test_with_json_no_command_prints_between_the_objects(tmp_path: Path) -> None:
    """Every line on stdout is one turn's object."""
    async with ModelServer([streamed("chat", "One."), streamed("chat", "Two.")]) as server:
        lines = "One?\n/state\n/help\n/context\n/model\n/memory\n/recall one\n/resume\nTwo?\n/compact\n/rollback\n/fork f\n"
        talked = await piped(tmp_path, lines, "t1", "--json", "--model", f"tiny@{server.origin}/v1")
    assert [json.loads(line)["text"] for line in talked.out.splitlines()] == ["One.", "Two."]


async def test_mail_that_asks_for_a_turn_is_answered_before_the_first_line(tmp_path: Path) -> None:
    """What another agent sent is heard, and its answer goes out like any; what only queues waits for a line."""
    async with threadkeep.open(tmp_path / "chat.db") as tk:
        thread = await tk.thread("t1", dialect="chat")
        await thread.deliver("Count the boats.", sender="harbour", way="trigger")
    async with ModelServer([streamed("chat", "Twelve."), streamed("chat", "Yes.")]) as server:
        talked = await piped(tmp_path, "Done?\n", "t1", "--model", f"tiny@{server.origin}/v1")
        assert (talked.code, talked.out, talked.err) == (0, "Twelve.\nYes.\n", "")
        assert "Count the boats." in str(server.requests[0].history)
        assert "Done?" not in str(server.requests[0].history)
