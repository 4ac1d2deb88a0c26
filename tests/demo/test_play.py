"""The demo plays a session through the real gateway, measures what it prints, and fails when something does not hold."""

from __future__ import annotations

import asyncio
import io
import re
import tempfile
from collections.abc import Iterator

import msgspec
import pytest
import zstandard
from msgspec.structs import replace
from rich.console import Console

from benchmarks.story.record import RECORD, render_record
from threadkeep import Config, Threadkeep
from threadkeep.compaction import Ledger, LedgerEntry, Section, Speaker, render_state
from threadkeep.compaction.ledger import Claim
from threadkeep.demo.checks import judge
from threadkeep.demo.play import play_session
from threadkeep.demo.session import Demand, Session, load_session
from threadkeep.threads import Pointer

TURNS = 24
WINDOW = 15_000


def shorten(session: Session, *, turns: int, window_tokens: int = WINDOW) -> Session:
    """Return the first turns of the recorded session, with the demands they make."""
    demands = tuple(demand for demand in session.demands if demand.turn < turns)
    return replace(session, turns=session.turns[:turns], demands=demands, window_tokens=window_tokens)


def recording() -> Console:
    """Return a console that keeps what it prints; nothing of it reaches the test's own output."""
    return Console(file=io.StringIO(), width=110)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The demo leaves its store behind on purpose; here that is among what pytest clears away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("demo")))
        yield


@pytest.fixture(scope="module")
def short_run() -> tuple[int, str]:
    """The exit code and the output of one short run without a terminal; several tests read the same one."""
    console = recording()
    code = asyncio.run(play_session(shorten(load_session(), turns=TURNS), console=console))
    return code, printed(console)


def numbers(text: str, line: str) -> list[int]:
    """Return the numbers of the one line that begins with `line`."""
    (found,) = re.findall(rf"^ *{re.escape(line)}(.*)$", text, flags=re.MULTILINE)
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", found)]


def test_a_short_session_is_kept_whole(short_run: tuple[int, str]) -> None:
    """Every demand stands in the last request, every check holds, and the exit code says so."""
    code, text = short_run
    assert (code, "✗" in text, "kept: 35 of 35" in text) == (0, False, True)
    assert "All 10 held." in text


def test_the_figures_of_a_run_fit_together(short_run: tuple[int, str]) -> None:
    """The provider receives as many requests as are sent, far fewer tokens, and nothing over its window."""
    _, text = short_run
    sent, received = numbers(text, "requests")
    all_sent, all_received = numbers(text, "tokens in all")
    new_sent, new_received = numbers(text, "of these new to a prompt cache")
    largest_sent, largest_received = numbers(text, "largest request")
    assert sent == received > TURNS
    assert new_sent == largest_sent < all_sent
    assert new_received < all_received < all_sent / 2
    assert largest_received <= WINDOW < largest_sent


def test_without_a_terminal_each_compaction_is_one_line(short_run: tuple[int, str]) -> None:
    """A log shows the compactions in order, each smaller after than before, and no control codes."""
    _, text = short_run
    lines = re.findall(r"^  turn +(\d+) of 24  compaction +(\d+)  +([\d,]+) -> +([\d,]+) tokens  \((.+)\)$", text, re.MULTILINE)
    shown = [(int(turn), int(before.replace(",", "")), int(after.replace(",", ""))) for turn, _, before, after, _ in lines]
    assert [int(number) for _, number, *_ in lines] == list(range(1, len(lines) + 1))
    assert len(lines) >= 3
    assert [turn for turn, _, _ in shown] == sorted(turn for turn, _, _ in shown)
    assert all(after < before for _, before, after in shown)
    assert [cause for *_, cause in lines].count("typed: /compact") == 1
    assert f"{len(lines)} compactions, {len(lines)} moves in" in text
    assert "\x1b" not in text


@pytest.mark.anyio
async def test_the_store_it_names_can_be_opened_afterwards(short_run: tuple[int, str]) -> None:
    """The commands it ends with name a store, a thread and a fork that are really there."""
    _, text = short_run
    (store,) = re.findall(r"THREADKEEP_STORE=(\S+)", text)
    (thread,) = re.findall(r"threadkeep show (t\S+) --state", text)
    async with Threadkeep(Config(store=store)) as tk:
        assert {row.id for row in await tk.threads()} == {thread, "demo-before-compaction", "demo-undone"}
        assert (await tk.find(thread)).id == thread
        assert (await tk.verify()).ok


@pytest.mark.anyio
async def test_the_report_fits_80_columns() -> None:
    """No line is wider, and none of the figures is cut off."""
    console = Console(file=io.StringIO(), width=80)
    assert await play_session(shorten(load_session(), turns=12), console=console) == 0
    before = printed(console).partition("Look for yourself")[0]
    assert max(map(len, before.splitlines())) <= 80
    assert numbers(before, "requests") != []


@pytest.mark.anyio
async def test_a_lost_demand_fails_the_demo() -> None:
    """A demand that no request holds is named, in red, and the exit code is 1."""
    session = shorten(load_session(), turns=12)
    lost = Demand(kind="rule", said="The tide table is kept in Crozon.", needle="tide table is kept in Crozon", turn=0)
    console = recording()
    assert await play_session(replace(session, demands=(*session.demands, lost)), console=console) == 1
    text = printed(console)
    count = len(session.demands)
    assert f"kept: {count} of {count + 1}" in text
    assert re.search(r"✗ +1 +rule +The tide table is kept in Crozon\. +nowhere", text)
    assert re.search(r"1 of \d+ did not hold\.", text)


@pytest.mark.anyio
async def test_a_window_too_small_for_the_users_words_stops_the_demo() -> None:
    """A provider refuses a request over its window, as a real one does; the demo says so and fails."""
    console = recording()
    assert await play_session(shorten(load_session(), turns=TURNS, window_tokens=1_500), console=console) == 1
    assert "did not reach its end: request" in printed(console)
    assert "context_length_exceeded" in printed(console)


@pytest.mark.anyio
async def test_a_session_that_needs_no_compaction_shows_nothing() -> None:
    """Where nothing was compacted, nothing is claimed."""
    console = recording()
    assert await play_session(shorten(load_session(), turns=10, window_tokens=200_000), console=console) == 1
    assert "nothing had to be compacted" in printed(console)


def test_the_recorded_session_is_the_generated_one() -> None:
    """`python -m benchmarks.story.record` writes the file again, and nothing else has changed it."""
    text = zstandard.ZstdDecompressor().decompress(RECORD.read_bytes())
    assert text == render_record()


def entry(number: int, text: str, *, section: Section = Section.ACTIVE, claim: str | None = None) -> LedgerEntry:
    source = Pointer("t1", number)
    later = Claim(text=claim, source=Pointer("t1", 90)) if claim else None
    return LedgerEntry(id=str(number), section=section, text=text, sources=(source,), speaker=Speaker.USER, born=1, claim=later)


def message(text: str, *, role: str = "user") -> bytes:
    return msgspec.json.encode({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})


PORT = Demand(kind="correction", said="It is 8443 now, not 7443.", needle="8443", turn=5, stale="7443")


@pytest.mark.parametrize(
    ("entries", "messages", "place", "is_outdated"),
    [
        ([entry(1, "Staging uses 8443.")], [], "active memory", False),
        ([entry(1, "It uses 8443.", section=Section.OBJECTIVE)], [], "objective", False),
        ([], ["Staging uses 8443."], "recent message", False),
        ([entry(1, "It uses 7443."), entry(2, "It is 8443 now.")], [], "active memory", False),
        ([entry(1, "It is 8443 now."), entry(2, "It uses 7443.")], [], "active memory", True),
        ([entry(1, "It uses 7443.", section=Section.INACTIVE, claim="It is 8443 now.")], [], None, False),
        ([entry(1, "Use 8443 there.", section=Section.EVIDENCE)], [], None, False),
        ([entry(1, "It uses 7443.")], ["It is 8443 now."], "recent message", False),
        ([], ["It uses 7443.", "It is 8443 now."], "recent message", False),
        ([], ["It is 8443 now.", "It uses 7443."], "recent message", True),
    ],
)
def test_only_what_the_model_is_told_to_hold_counts(
    entries: list[LedgerEntry], messages: list[str], place: str | None, *, is_outdated: bool
) -> None:
    """A value under Inactive Changes or Evidence is not kept; an older one is at fault where it stands without the newer."""
    state = message(render_state(Ledger(entries=tuple(entries))))
    (judged,) = judge([PORT], [message("before: 8443"), state, message("8443", role="assistant"), *map(message, messages)])
    assert (judged.place, judged.is_outdated) == (place, is_outdated)
    assert judged.holds == (place is not None and not is_outdated)
