"""The command line as a process: pipes, signals, exit codes."""

from __future__ import annotations

import signal
import subprocess
from itertools import takewhile
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest
from tests.cli.stories import command, grown, started, stored, surroundings


def test_a_module_runs_like_the_script() -> None:
    """`python -m threadkeep.cli` prints the help."""
    ran = subprocess.run(command("--help"), env=surroundings(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("usage: threadkeep ")


def closed_early(*arguments: str) -> tuple[int, str]:
    """Run a command whose reader takes one byte and leaves; return its exit code and what it said on stderr."""
    with started(*arguments) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.read(1)
        running.stdout.close()
        complaints = running.stderr.read()
        return running.wait(), complaints


@pytest.mark.slow
def test_a_closed_pipe_ends_a_command_quietly(home: Path) -> None:
    """`threadkeep … | head` leaves no traceback, for people's output and machines' alike, however much was still to come."""
    path = stored(home / "long.db", lambda tk: grown(tk, "long", turns=150))
    look = ("show", "long", "--records", "--store", str(path))
    assert [closed_early(*look), closed_early(*look, "--json")] == [(0, ""), (0, "")]


def test_the_gateway_serves_until_it_is_told_to_stop(home: Path) -> None:
    """`serve` prints one JSON object with its URL once it answers, makes its store, and exits 0 on SIGTERM."""
    path = home / "served.db"
    with started("serve", "--port", "0", "--json", "--store", str(path), "--openai-upstream", "http://127.0.0.1:9") as running:
        assert running.stdout is not None
        ready = msgspec.json.decode(running.stdout.readline())
        with urlopen(f"{ready['url']}/healthz", timeout=60) as answer:
            assert answer.status == 200
        running.send_signal(signal.SIGTERM)
        left = running.communicate()
    assert (running.returncode, left) == (0, ("", ""))
    assert ready == {
        "url": ready["url"],
        "base_url": f"{ready['url']}/v1",
        "upstream": "http://127.0.0.1:9",
        "openai_upstream": "http://127.0.0.1:9",
        "anthropic_upstream": "https://api.anthropic.com",
        "gemini_upstream": "https://generativelanguage.googleapis.com",
        "store": str(path),
        "control_token_file": f"{path}.control-token",
    }
    assert path.exists()


def test_serve_tells_people_what_to_set(home: Path) -> None:
    """Every line names the address the gateway really has, in one piece."""
    with started("serve", "--port", "0", "--store", str(home / "served.db")) as running:
        assert running.stdout is not None
        told = list(takewhile(lambda line: not line.endswith("Ctrl-C stops.\n"), running.stdout))
        running.send_signal(signal.SIGINT)
        running.communicate()
    url = told[0].split()[3]
    assert running.returncode == 0
    lines = [line.rstrip("\n")[19:] for line in told]
    assert {f"export OPENAI_BASE_URL={url}/v1", f"export ANTHROPIC_BASE_URL={url}", f"{url}/ui/"} < set(lines)
    assert f"threadkeep setup CLIENT --url {url}" in lines


def test_a_public_address_is_refused(home: Path) -> None:
    """`serve` on an address others can reach exits 1 with the reason."""
    arguments = command("serve", "--host", "0.0.0.0", "--port", "0", "--store", str(home / "served.db"))
    ran = subprocess.run(arguments, env=surroundings(), capture_output=True, text=True, check=False, timeout=30)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("threadkeep: refusing to listen on 0.0.0.0: ")
