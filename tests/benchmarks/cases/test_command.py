"""`python -m benchmarks cases` from the command line, and readers that are models."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import msgspec
import pytest

from benchmarks.cases.manifest import load_manifest
from benchmarks.cases.probes import Probe, find_probe, make_probes
from benchmarks.cases.readers import LiteralReader, ModelReader
from benchmarks.command.main import main
from threadkeep.dialects import Request, find_dialect
from threadkeep.llm.base import ModelReply

PROBES = make_probes(load_manifest(), seed=1)


def probe(name: str) -> Probe:
    found = find_probe(PROBES, name)
    assert found is not None
    return found


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, object]:
    code = main(["cases", *arguments, "--json"])
    return code, json.loads(capfd.readouterr().out)


def test_the_manifest_is_validated_and_summed_up(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is wrong with ours; its sums are those of its files."""
    assert printed(capfd, "validate") == (0, {"ok": True, "sessions": 3, "cases": 32, "problems": []})
    code, told = printed(capfd, "summary", "--session", "ferry")
    assert code == 0
    assert isinstance(told, dict)
    assert told["sessions"] == {"ferry": {"hops": 5, "cases": 10}}
    assert (sum(told["categories"].values()), told["working_states"]) == (10, 5)


def test_every_id_that_can_be_asked_for_is_listed(capfd: pytest.CaptureFixture[str]) -> None:
    """Cases and working states, a line each or as JSON; each of them is a case that `probe` knows."""
    ids = [each.id for each in PROBES if each.session == "ferry"]
    code, told = printed(capfd, "validate", "--session", "ferry", "--list-case-ids")
    assert (code, isinstance(told, dict) and told["case_ids"]) == (0, ids)
    assert main(["cases", "validate", "--session", "ferry", "--list-case-ids"]) == 0
    assert [line.strip() for line in capfd.readouterr().out.splitlines()][1:] == ids


def test_a_manifest_with_a_problem_fails_with_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, and the problem is named."""
    session = load_manifest().only(["ferry"]).sessions[0]
    broken = session.cases[0].evidence
    source = Path(str(load_manifest.__globals__["files"]("benchmarks.cases").joinpath("manifest/ferry.toml")))
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
    assert main(["cases", "probe", "--case", "nowhere"]) == 1
    assert "no case 'nowhere'" in capfd.readouterr().err


def test_a_run_is_printed_and_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One object with every answer and the aggregates; without a summariser only what needs none is run."""
    written = tmp_path / "cases.json"
    code, told = printed(capfd, "run", "--session", "orchard", "-o", str(written))
    assert code == 0
    assert isinstance(told, dict)
    assert json.loads(written.read_text(encoding="utf-8")) == told
    assert [*told["aggregates"]["variants"]] == ["source", "extractive", "none"]
    assert main(["cases", "run-chain", "--ask-at", "x"]) == 1
    assert main(["cases", "run", "--variant", "session"]) == 1
    assert "name one with --summariser" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "trouble"),
    [
        (["run-chain", "--ask-at", "9"], "nothing is asked after hop 9: hops 1 to 5 are played"),
        (["run-chain", "--ask-at", "0,5"], "nothing is asked after hop 0: hops 1 to 5 are played"),
        (["run-chain", "--hops", "2", "--ask-at", "3"], "nothing is asked after hop 3: hops 1 to 2 are played"),
        (["run", "--case", "orchard-work-2"], "'orchard-work-2' is never asked in this run: it is asked after hop 2 only"),
        (["run-chain", "--hops", "1", "--case", "orchard-work-2"], "'orchard-work-2' is never asked"),
    ],
)
def test_what_would_never_be_asked_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], trouble: str
) -> None:
    """Before anything is prepared."""
    lab = tmp_path / "lab"
    assert main(["cases", *arguments, "--session", "orchard", "--lab", str(lab)]) == 1
    assert (trouble in capfd.readouterr().err, lab.exists()) == (True, False)


def test_a_run_says_after_which_hops_it_asks(capfd: pytest.CaptureFixture[str]) -> None:
    """One compaction over the whole session is asked about after the last hop, and nowhere else."""
    session = ["--session", "orchard", "--variant", "none"]
    assert main(["cases", "run", *session]) == 0
    assert "asked after the last hop only" in capfd.readouterr().out
    assert main(["cases", "run-chain", *session, "--ask-at", "1,5"]) == 0
    assert "asked after hop 1, 5" in capfd.readouterr().out


def test_a_run_whose_reader_does_not_answer_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What was found is printed and written all the same; the error says how to go on."""
    written = tmp_path / "cases.json"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        reader = f"nobody@http://127.0.0.1:{closed.getsockname()[1]}/v1"
        options = ["--reader", reader, "--variant", "source", "--case", "orchard-beehives", "-o", str(written)]
        code = main(["cases", "run", "--session", "orchard", *options, "--json"])
    found = capfd.readouterr()
    assert code == 1
    assert json.loads(found.out) == json.loads(written.read_text(encoding="utf-8"))
    assert "1 of 1 probes had no answer (model_unavailable 1); with --lab a second run asks only these" in found.err


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
    assert find_dialect("responses").view(item).text == f"before\n\n{asked.text}"


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
