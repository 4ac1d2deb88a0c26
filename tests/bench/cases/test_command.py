"""`holdfast bench cases` from the command line, and readers that are models."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from holdfast.bench.cases.manifest import load_manifest
from holdfast.bench.cases.probes import Probe, make_probes, probe_named
from holdfast.bench.cases.readers import LiteralReader, ModelReader
from holdfast.cli import main
from holdfast.dialects import Request, dialect_named
from holdfast.llm.base import ModelReply

PROBES = make_probes(load_manifest(), seed=1)


def probe(name: str) -> Probe:
    found = probe_named(PROBES, name)
    assert found is not None
    return found


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, object]:
    code = main(["bench", "cases", *arguments, "--json"])
    return code, json.loads(capfd.readouterr().out)


def test_the_manifest_is_validated_and_summed_up(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is wrong with ours; its sums are those of its files."""
    assert printed(capfd, "validate") == (0, {"ok": True, "sessions": 3, "cases": 32, "problems": []})
    code, told = printed(capfd, "summary", "--session", "ferry")
    assert code == 0
    assert isinstance(told, dict)
    assert told["sessions"] == {"ferry": {"hops": 5, "cases": 10}}
    assert (sum(told["categories"].values()), told["working_states"]) == (10, 5)


def test_a_manifest_with_a_problem_fails_with_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, and the problem is named."""
    session = load_manifest().only(["ferry"]).sessions[0]
    broken = session.cases[0].evidence
    source = Path(str(load_manifest.__globals__["files"]("holdfast.bench.cases").joinpath("manifest/ferry.toml")))
    (tmp_path / "ferry.toml").write_text(
        source.read_text(encoding="utf-8").replace(broken, "Nobody said this."), encoding="utf-8"
    )
    code, told = printed(capfd, "validate", "--manifest", str(tmp_path))
    assert code == 1
    assert isinstance(told, dict)
    assert "does not hold the answer" in str(told["problems"])


def test_a_case_is_shown_and_a_reply_scored(capfd: pytest.CaptureFixture[str]) -> None:
    """The probe has no answer in it, the score has a verdict."""
    code, told = printed(capfd, "probe", "--case", "ferry-time-zone")
    assert (code, isinstance(told, dict) and told["text"]) == (0, probe("ferry-time-zone").text)
    asked = probe("ferry-time-zone")
    letter = "ABCD"[asked.options.index("Europe/Skerryvore")]
    assert printed(capfd, "score", "--case", "ferry-time-zone", "--response", f'{{"option": "{letter}"}}') == (
        0,
        {"id": "ferry-time-zone", "score": 0.0, "verdict": "fail", "hard_fail": True},
    )
    assert main(["bench", "cases", "probe", "--case", "nowhere"]) == 1
    assert "no case 'nowhere'" in capfd.readouterr().err


def test_a_run_is_printed_and_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One object with every answer and the aggregates; without a summariser only what needs none is run."""
    written = tmp_path / "cases.json"
    code, told = printed(capfd, "run", "--session", "orchard", "-o", str(written))
    assert code == 0
    assert isinstance(told, dict)
    assert json.loads(written.read_text(encoding="utf-8")) == told
    assert [*told["aggregates"]["variants"]] == ["source", "extractive", "none"]
    assert main(["bench", "cases", "run-chain", "--ask-at", "x"]) == 1
    assert main(["bench", "cases", "run", "--variant", "session"]) == 1
    assert "name one with --summariser" in capfd.readouterr().err


class Recording:
    """A model that answers alike and keeps what it was asked."""

    name = "recording@nowhere"
    window_tokens = None

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.requests: list[Request] = []

    async def ask(self, request: Request) -> ModelReply:
        self.requests.append(request)
        return ModelReply(text='{"option": "A"}', input_tokens=7)


@pytest.mark.anyio
async def test_a_model_is_asked_in_its_own_language() -> None:
    """One of Chat Completions gets the messages and a schema; another gets all of it as one text."""
    asked = probe("ferry-time-zone")
    messages: list[dict[str, object]] = [{"role": "assistant", "content": "before"}, {"role": "user", "content": asked.text}]
    chat, responses = Recording("chat"), Recording("responses")
    assert (await ModelReader(chat).answer(messages, asked)).text == '{"option": "A"}'
    await ModelReader(responses).answer(messages, asked)
    fields = {name: msgspec.json.decode(raw) for name, raw in chat.requests[0].fields.items()}
    assert fields["temperature"] == 0
    assert fields["response_format"]["json_schema"]["schema"] == asked.schema
    assert [msgspec.json.decode(item.raw) for item in chat.requests[0].items] == messages
    (item,) = responses.requests[0].items
    assert dialect_named("responses").view(item).text == f"before\n\n{asked.text}"


@pytest.mark.anyio
async def test_the_literal_reader_reads_the_newest_line_with_the_questions_words() -> None:
    """It takes an option that stands there, guesses where none does, and abstains from what it does not find."""
    asked = probe("ferry-staging-port")
    said: list[dict[str, object]] = [
        {
            "role": "user",
            "content": "The gateway for trying things: port 18437.\nThe gateway for trying things: port 18473.",
        },
        {"role": "user", "content": asked.text},
    ]
    right = "ABCD"[asked.options.index("18473")]
    assert json.loads((await LiteralReader().answer(said, asked)).text) == {"option": right}
    never = probe("ferry-fuel-price")
    nothing: list[dict[str, object]] = [{"role": "user", "content": f"Hello there.\n\n{never.text}"}]
    assert json.loads((await LiteralReader().answer(nothing, never)).text) == {"known": False, "answer": ""}
