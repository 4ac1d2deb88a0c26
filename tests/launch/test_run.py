"""`threadkeep run` as a process, with a small program in place of a client."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import http_error, say
from tests.drivers.process import Ended, run_to_end

SECONDS = 120.0
RUN = (sys.executable, "-P", "-m", "threadkeep.cli", "run")

ASK = """
    import json, os, sys, urllib.request
    base = os.environ["OPENAI_BASE_URL"]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello."}]}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer sk-very-secret"}
    with urllib.request.urlopen(urllib.request.Request(f"{base}/chat/completions", data=body, headers=headers)) as answer:
        text = json.load(answer)["choices"][0]["message"]["content"]
    print(json.dumps({"base": base, "anthropic": os.environ["ANTHROPIC_BASE_URL"], "text": text, "args": sys.argv[1:]}))
    sys.exit(7)
"""


def surroundings(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user with an empty home and no settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("THREADKEEP_", "OPENAI_", "ANTHROPIC_"))}
    return {**kept, "HOME": str(home), **more}


def script(folder: Path, text: str) -> str:
    file = folder / "client.py"
    file.write_text(dedent(text))
    return str(file)


async def run(home: Path, words: Sequence[str], *, before: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> Ended:
    environment = surroundings(home, **(environ or {}))
    return await run_to_end((*RUN, *before, "--", *words), cwd=home, environment=environment, seconds=SECONDS)


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_client_runs_and_the_summary_says_what_it_sent(tmp_path: Path) -> None:
    """It is given our URLs and its own arguments, `--` included; its exit code is ours; the upstream is where it asked before.

    The gateway is gone afterwards, and neither it nor we wrote down the key.
    """
    # A server on this machine is asked first whether it is a gateway on the same store.
    async with ScriptedProvider([http_error(404, "no such path"), say("hello back")]) as provider:
        words = (sys.executable, script(tmp_path, ASK), "--flag", "--", "-x")
        ended = await run(tmp_path, words, environ={"OPENAI_BASE_URL": provider.url})
    told = json.loads(ended.stdout)
    assert ended.exit_code == 7, ended
    assert (told["text"], told["args"]) == ("hello back", ["--flag", "--", "-x"])
    assert told["base"] == f"{told['anthropic']}/v1"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/run/[0-9a-f]{16}", told["anthropic"])
    size = -(-len(provider.requests[-1].raw) // 4)
    assert re.fullmatch(
        rf"threadkeep: 1 request, 0 compactions\n  about {size} tokens sent, {size} asked for by the client\n"
        r"  threadkeep show t[0-9a-f]+\n  threadkeep view    opens them in a browser\n",
        ended.stderr.decode(),
    )
    assert max(map(len, ended.stderr.decode().splitlines())) <= 80
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", urlsplit(told["base"]).port or 0))
    written = [path.read_bytes() for path in (tmp_path / ".local").rglob("*") if path.is_file()]
    assert not any(b"sk-very-secret" in each for each in written)


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_client_that_asks_nothing_is_told_so(tmp_path: Path) -> None:
    """A signal that ended it is told as a shell tells it; `--json` prints an object. Modules of the folder are not imported."""
    (tmp_path / "msgspec.py").write_text("raise SystemExit('a module of the folder was imported')")
    ended = await run(tmp_path, ("sh", "-c", "kill -9 $$"), before=("--json",))
    assert ended.exit_code == 137
    told = json.loads(ended.stderr)
    assert told == {
        "client": "sh",
        "exit_code": 137,
        "store": str(tmp_path / ".local/share/threadkeep/threadkeep.db"),
        "requests": 0,
        "client_tokens": 0,
        "provider_tokens": 0,
        "compactions": 0,
        "threads": [],
    }


def hear_interrupts() -> None:
    """In a process about to be started: undo that a background job ignores SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_signals_reach_the_client(tmp_path: Path) -> None:
    """Sent to us without a terminal, SIGINT and SIGTERM are passed on, and the client decides what becomes of them."""
    waiting = """
        import signal, sys
        def interrupted(number, frame): print("interrupted", flush=True)
        def ended(number, frame): print("ended", flush=True); sys.exit(5)
        signal.signal(signal.SIGINT, interrupted); signal.signal(signal.SIGTERM, ended)
        print("ready", flush=True)
        while True: signal.pause()
    """
    words = (*RUN, "--", sys.executable, script(tmp_path, waiting))
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words,
        cwd=tmp_path,
        env=surroundings(tmp_path),
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    ) as running:
        assert running.stdout is not None
        said = [running.stdout.readline()]
        for number in (signal.SIGINT, signal.SIGTERM):
            running.send_signal(number)
            said.append(running.stdout.readline())
        assert running.wait(SECONDS) == 5
    assert said == [b"ready\n", b"interrupted\n", b"ended\n"]


TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


@pytest.mark.slow
def test_what_is_typed_reaches_the_client_once(tmp_path: Path) -> None:
    """It has the terminal; Ctrl-C interrupts it alone and not twice, and it goes on."""
    counting = """
        import os, signal, sys
        times = []
        signal.signal(signal.SIGINT, lambda number, frame: times.append(number))
        print("terminal" if os.isatty(0) and os.isatty(1) else "pipe", flush=True)
        print("line", sys.stdin.readline().strip(), len(times), flush=True)
    """
    words = (sys.executable, "-c", TERMINAL, *RUN, "--", sys.executable, script(tmp_path, counting))
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, cwd=tmp_path, env=surroundings(tmp_path), stdin=pipe, stdout=pipe, preexec_fn=hear_interrupts
    ) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        said: list[bytes] = []
        for expected, typed in ((b"terminal", b"\x03"), (b"^C", b"go on\n"), (b"line", b"")):
            while not (said and expected in said[-1]):
                said.append(os.read(running.stdout.fileno(), 4096))
                assert said[-1], said
            running.stdin.write(typed)
            running.stdin.flush()
        rest = b"".join(said[-1:]) + running.stdout.read()
        assert (running.wait(SECONDS), b"line go on 1" in rest) == (0, True), said


@pytest.mark.slow
def test_a_gateway_ends_with_who_started_it(tmp_path: Path) -> None:
    """Killed with no chance to clean up, `run` leaves no gateway behind: a connection to it ends."""
    waiting = """
        import os, signal
        print(os.environ["OPENAI_BASE_URL"], flush=True)
        signal.pause()
    """
    words = (*RUN, "--", sys.executable, script(tmp_path, waiting))
    with subprocess.Popen(
        words,
        cwd=tmp_path,
        env=surroundings(tmp_path),
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    ) as running:
        assert running.stdout is not None
        url = urlsplit(running.stdout.readline().decode().strip())
        with socket.create_connection(("127.0.0.1", url.port or 0), timeout=SECONDS) as held:
            os.killpg(running.pid, signal.SIGKILL)
            assert held.recv(1) == b""


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_gateway_that_does_not_start_says_why(tmp_path: Path) -> None:
    store = tmp_path / "notes.db"
    store.write_text("this is no database")
    ended = await run(tmp_path, ("true",), before=("--store", str(store)))
    assert ended.exit_code == 1
    said = ended.stderr.decode()
    assert said.startswith("threadkeep: the gateway did not start: ")
    assert said.endswith(f"; its log is {store}.run.log\n")
    assert str(store) in said.partition("; its log")[0]


def serve(home: Path, *flags: str) -> tuple[Any, str]:
    """Start the user's own gateway on a free port; return the process and its URL."""
    process = subprocess.Popen(
        (sys.executable, "-m", "threadkeep.cli", "serve", "--json", "--port", "0", *flags),
        cwd=home,
        env=surroundings(home),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["url"]


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_running_gateway_is_reused_if_it_does_the_same(tmp_path: Path) -> None:
    """On the same store, with the same settings, and compacting; else the client has one of its own, not one behind the other."""
    async with ScriptedProvider([say("one"), say("two")]) as provider:
        compacts = ("--openai-upstream", provider.url, "--auto-compact", "on", "--auto-compact-for", "claude-code=on")
        process, url = serve(tmp_path, *compacts)
        try:
            port = {"THREADKEEP_PORT": str(urlsplit(url).port)}
            words = (sys.executable, script(tmp_path, ASK))
            reused = await run(tmp_path, words, environ={"OPENAI_BASE_URL": f"{url}/v1", **port})
            # The user points clients at that gateway, and wants something else this time.
            otherwise = {"OPENAI_BASE_URL": f"{url}/v1", "THREADKEEP_MODEL_CONTEXT_WINDOW": "100000"}
            other = await run(tmp_path, words, environ={**port, **otherwise})
            assert process.poll() is None
        finally:
            process.terminate()
            process.communicate(timeout=SECONDS)
    assert json.loads(reused.stdout)["base"].startswith(f"{url}/run/")
    assert b"1 request, 0 compactions" in reused.stderr
    assert not json.loads(other.stdout)["base"].startswith(url)
    assert json.loads(other.stdout)["text"] == "two"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("claude",), 1, "there is no command 'claude' on your PATH; install it with `npm install -g @anthropic-ai/claude-code`"),
        (("--", "no-such-program"), 1, "there is no command 'no-such-program' on your PATH; check the name, or install it"),
        (("claude", "-p", "hi"), 2, "unrecognized arguments: -p hi; arguments for the client stand behind --"),
        (("cloud",), 2, "for any other program: threadkeep run -- cloud"),
    ],
)
def test_what_cannot_be_run_is_said(
    words: tuple[str, ...], code: int, said: str, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    from threadkeep.cli import main

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["run", *words]) == code
    assert said in " ".join(capsys.readouterr().err.split())


def test_without_a_client_the_known_ones_are_listed(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    """With how to start those that are there, and how to install those that are not."""
    from threadkeep.cli import main

    (tmp_path / "codex").write_text("#!/bin/sh\n")
    (tmp_path / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  Codex        threadkeep run codex" in lines
    assert "  Claude Code  not installed: npm install -g @anthropic-ai/claude-code" in lines
    assert max(map(len, lines)) <= 80
    assert main(["run", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["clients"]
    assert [each["name"] for each in listed if each["installed"]] == ["codex"]


def test_an_unknown_client_is_told_within_80_columns(capsys: Any) -> None:
    """The error, the clients there are, and the way to run any other program, each on a line of its own."""
    from threadkeep.cli import main

    assert main(["run", "cloud"]) == 2
    complained = capsys.readouterr().err.splitlines()
    assert complained[-3].endswith("no client is named 'cloud'")
    assert max(map(len, complained)) <= 80
