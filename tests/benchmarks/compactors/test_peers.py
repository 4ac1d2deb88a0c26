"""Peers in processes of their own: the conversation with a driver, and what becomes of one that is not there or fails."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from benchmarks.compactors import process as process_module
from benchmarks.compactors.driver import COMPACTORS
from benchmarks.compactors.peer import BUDGET_RULE, PeerArm, Peers, parse_peer
from benchmarks.compactors.process import Named, PeerMissing, PeerProcess
from benchmarks.retention.arms import Moment
from benchmarks.retention.run import Plan, run_retention
from benchmarks.retention.summarisers import INDEX_HEAD, SUMMARISERS, Note
from benchmarks.retention.windows import Piece, Place, make_piece
from threadkeep.compaction.state_text import TAG
from threadkeep.dialects import find_dialect
from threadkeep.errors import BadInput

CHAT = find_dialect("chat")
# A driver that keeps the newest message behind what it is told, and fails where it is told to.
SCRIPTED = """
import json, sys
print(json.dumps({"ready": "1.0"}), flush=True)
window = []
for line in sys.stdin:
    told = json.loads(line)
    if told.get("begin"):
        window = []
        continue
    window += told["new"]
    if any("BREAK-NOW" in str(message) for message in told["new"]):
        print(json.dumps({"failed": "told to"}), flush=True)
        continue
    print(json.dumps({"ask": json.dumps(window)}), flush=True)
    answer = json.loads(sys.stdin.readline())["answer"]
    window = [{"role": "assistant", "content": "Before: " + answer}, window[-1]]
    print(json.dumps({"window": window}), flush=True)
"""
# A driver that ends, or never answers, where it is told to, and else hands back what is new.
FRAIL = """
import json, os, sys
print(json.dumps({"ready": "1.0"}), flush=True)
for line in sys.stdin:
    told = json.loads(line)
    if "END-NOW" in line:
        print("first\\nthe heap is gone\\n", file=sys.stderr, flush=True)
        os._exit(3)
    while "HANG-NOW" in line:
        sys.stdin.readline()
    if "new" in told:
        print(json.dumps({"window": told["new"]}), flush=True)
"""
# A driver that says it is ready when nobody can tell it anything any more.
DEAF = """
import os, signal
os.close(0)
print('{"ready": "1.0"}', flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
INSTRUCTION = f"""<{TAG}>
Active Memory:
- [e1] The port is 5432.
</{TAG}>

{INDEX_HEAD}#4: The port is 6543.

Go."""
# A driver that asks for what changes, with a ledger and numbered messages in its instruction.
LEDGER = f"""
import json, sys
print(json.dumps({{"ready": "1.0"}}), flush=True)
instruction = {INSTRUCTION!r}
for line in sys.stdin:
    told = json.loads(line)
    if told.get("begin"):
        continue
    print(json.dumps({{"ask": "The port is 6543." + instruction, "instruction": instruction}}), flush=True)
    answer = json.loads(sys.stdin.readline())["answer"]
    print(json.dumps({{"window": [{{"role": "assistant", "content": answer}}]}}), flush=True)
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "driver.py"
    path.write_text(SCRIPTED, encoding="utf-8")
    monkeypatch.setattr(process_module, "DRIVER", path)
    return path


def pieces(*texts: str) -> list[Piece]:
    return [make_piece(CHAT.parse({"role": "user", "content": text}), dialect=CHAT) for text in texts]


def moment(history: list[Piece], *, begin: int, key: Sequence[Note] = ()) -> Moment:
    return Moment(history=history, begin=begin, key=key, budget_tokens=100, dialect=CHAT)


def note(text: str, value: str, *, stale: str | None = None) -> Note:
    return Note(text=text, value=value, stale=stale, lie="1", work=False)


def test_a_peer_is_asked_with_what_is_new_and_its_summary_is_known_as_one(driver: Path) -> None:
    """The summary it asked for counts as a summary, the message it kept as a person's."""
    with PeerProcess(Named(name="langchain", python=sys.executable)) as process:
        arm = PeerArm(process=process, summarise=SUMMARISERS["faithful"], rng=Random(1))
        process.begin(has_model=True)
        history = pieces("keep the door shut", "go on")
        window = arm.window(moment(history, begin=0))
        assert [piece.place for piece in window] == [Place.SUMMARY, Place.PERSON]
        assert window[1].text == "go on"
        assert (process.version, arm.asked, arm.failures) == ("1.0", 1, 0)


def test_what_was_taken_back_is_not_noted_down_again(driver: Path) -> None:
    """A faithful summariser, shown the old value once more beside the new one, knows which holds."""
    said = pieces("The port is 5432.", "The port is 6543, not 5432.", "Was it 5432 or 6543?")
    old, new = note("The port is 5432.", "5432"), note("The port is 6543.", "6543", stale="5432")
    with PeerProcess(Named(name="langchain", python=sys.executable)) as process:
        arm = PeerArm(process=process, summarise=SUMMARISERS["faithful"], rng=Random(1))
        process.begin(has_model=True)
        windows = [arm.window(moment(said[: at + 1], begin=at, key=key)) for at, key in enumerate(([old], [new], []))]
    told = [[each.text in window[0].text for each in (old, new)] for window in windows]
    assert told == [[True, False], [False, True], [False, True]]


def test_a_question_for_what_changes_is_answered_from_the_ledger_it_holds(driver: Path) -> None:
    """Its answer names the entry that no longer holds; where it stands in a window, it is a state and no summary."""
    driver.write_text(LEDGER, encoding="utf-8")
    new = note("The port is 6543.", "6543", stale="5432")
    with PeerProcess(Named(name="threadkeep-langchain", python=sys.executable)) as process:
        arm = PeerArm(process=process, summarise=SUMMARISERS["faithful"], rng=Random(1))
        process.begin(has_model=True)
        window = arm.window(moment(pieces("The port is 6543."), begin=0, key=[new]))
    assert [piece.place for piece in window] == [Place.STATE]
    assert "- supersede | [e1] → The port is 6543. (#4)" in window[0].text


def test_a_peer_that_fails_goes_on_with_what_it_had(driver: Path) -> None:
    """Its failure is counted, and nothing is taken away."""
    with PeerProcess(Named(name="langchain", python=sys.executable)) as process:
        arm = PeerArm(process=process, summarise=SUMMARISERS["empty"], rng=Random(1))
        process.begin(has_model=True)
        history = pieces("one", "BREAK-NOW")
        window = arm.window(moment(history, begin=0))
        assert ([piece.text for piece in window], arm.failures) == (["one", "BREAK-NOW"], 1)


def test_a_peer_that_ends_fails_until_the_next_session(driver: Path) -> None:
    """With what it wrote last, at every hop; nothing of the session is taken away, and the next one has the peer back."""
    driver.write_text(FRAIL, encoding="utf-8")
    with Peers([parse_peer("langchain")], summarisers=("faithful",)) as peers:
        ((name, arm),) = peers.arms(1)
        history = pieces("one", "END-NOW", "three")
        windows = [arm.window(moment(history[: at + 1], begin=at)) for at in range(3)]
        ((_, again),) = peers.arms(2)
        anew = again.window(moment(pieces("four"), begin=0))
        told = peers.messages[-1]
    assert [[piece.text for piece in window] for window in windows] == [["one"], ["one", "END-NOW"], ["one", "END-NOW", "three"]]
    assert ([piece.text for piece in anew], arm.failures, again.failures) == (["four"], 2, 0)
    assert told == f"{name} failed 2 times and went on with what it had (its process ended with code 3: the heap is gone)"


def test_a_peer_that_no_longer_listens_fails_its_hop(driver: Path) -> None:
    """A pipe that nobody reads is a failed hop, as an answer that never came is."""
    driver.write_text(DEAF, encoding="utf-8")
    with PeerProcess(parse_peer("langchain")) as process:
        process.begin(has_model=True)
        found = process.compact([{"role": "user", "content": "one"}], budget_tokens=100, summarise=lambda asked: "")
        assert (found, process.trouble) == (None, "its process was ended by signal 9")


def test_a_peer_that_never_answers_is_ended(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a hop that is a failure, on starting it takes no part; neither keeps a run waiting."""
    driver.write_text(FRAIL, encoding="utf-8")
    with PeerProcess(parse_peer("langchain")) as process:
        process.begin(has_model=True)
        monkeypatch.setattr(process_module, "LONGEST_HOP_S", 1)
        found = process.compact([{"role": "user", "content": "HANG-NOW"}], budget_tokens=100, summarise=lambda asked: "")
        assert (found, process.trouble) == (None, "it did not answer within 1 s and was ended")
    driver.write_text("import sys\nsys.stdin.read()", encoding="utf-8")
    with pytest.raises(PeerMissing, match="it did not answer within 1 s and was ended"), PeerProcess(parse_peer("hermes")):
        pass


def test_who_is_not_there_is_said_with_the_reason(driver: Path) -> None:
    """An interpreter that does not start, and one that has not the package."""
    with Peers([Named(name="hermes", python="/nowhere/python")]) as peers:
        assert peers.missing == {"hermes": "/nowhere/python cannot be started: No such file or directory"}
        assert peers.arms(1) == []
        assert peers.messages == ["hermes takes no part: /nowhere/python cannot be started: No such file or directory"]
    driver.write_text('print(\'{"cannot": "hermes-agent is not installed"}\')', encoding="utf-8")
    with pytest.raises(PeerMissing, match="hermes-agent is not installed"), PeerProcess(parse_peer("hermes")):
        pass


def test_a_peer_is_named_with_or_without_an_interpreter() -> None:
    """Without, it is this one."""
    assert parse_peer("hermes=/opt/h/bin/python") == Named(name="hermes", python="/opt/h/bin/python")
    assert parse_peer("langchain") == Named(name="langchain", python=sys.executable)
    with pytest.raises(BadInput, match=f"there are {', '.join(COMPACTORS)}"):
        parse_peer("tape")


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_peer_is_judged_beside_the_library_in_one_run(driver: Path, tmp_path: Path) -> None:
    """As one more arm, hop by hop, in the sessions of Chat Completions."""
    plan = Plan(name="tiny", dialects=("chat",), seeds=1, turns=12, hops=2, scored=(2,))
    with Peers([parse_peer("langchain")], summarisers=("faithful",)) as peers:
        found = await run_retention(plan, family="story", seed=1, say=lambda text: None, folder=tmp_path, more=peers.arms)
    arms = {cell.arm for cell in found.tally.cells}
    assert {"langchain, faithful", "extractive"} <= arms
    assert peers.arms_made[0][1].asked == 2
    assert peers.messages == [BUDGET_RULE, "langchain 1.0, asked in its own interpreter"]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("langchain") is None, reason="langchain is not installed")
def test_a_real_peer_compacts() -> None:
    """LangChain's middleware, through its own driver: shorter, with the summary it was given."""
    with PeerProcess(parse_peer("langchain")) as process:
        process.begin(has_model=True)
        new = [{"role": role, "content": f"{role} says {number} " * 30} for number in range(12) for role in ("user", "assistant")]
        window = process.compact(new, budget_tokens=400, summarise=lambda asked: "THE SUMMARY")
    assert window is not None
    assert len(window) < len(new)
    assert "THE SUMMARY" in str(window[0])
