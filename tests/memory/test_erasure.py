"""Threads put away and back; everything about a tenant in their own hands."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.memory.conftest import HOUR_MS, say, texts, user

from threadkeep import Config, Threadkeep
from threadkeep.cli import main
from threadkeep.erasure.erase import erase, plan_erasure
from threadkeep.erasure.takeout import TakenOut, take_out
from threadkeep.gateway.http.keys import KeysFile, digest_key, make_key
from threadkeep.items import digest_body, format_digest
from threadkeep.memory.pipeline import MemoryPass

pytestmark = pytest.mark.anyio

RULES = ("Never push to the main branch.", "All times are in UTC, always.")


@pytest.fixture(params=["sqlite", "postgres"])
async def tk(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    store = str(tmp_path / "s.db")
    if request.param == "postgres":
        store = await request.getfixturevalue("postgres_server").new_store()
    async with Threadkeep(Config(store=store, model_context_window=4_000), clock=clock) as opened:
        yield opened


async def test_everything_about_a_tenant_is_taken_out(tk: Threadkeep, clock: ManualClock, tmp_path: Path) -> None:
    """Every record of every thread and nothing of another tenant's; the memory whole; what was erased, and when; key digests."""
    other = await tk.for_tenant("other")
    await say(other, "theirs", "You must keep the word zanzibar to yourself.")
    await say(tk, "one", *RULES)
    await say(tk, "two", RULES[1])
    clock.ms += 7 * HOUR_MS
    await tk.memory.run()
    two = await tk.find("two")
    await two.archive()
    plan = await plan_erasure(tk.backend, "one", [2])

    async def recompact(thread_id: str) -> object:
        return thread_id

    await erase(tk.backend, plan, reason="asked to", memories=tk.memory, recompact=recompact)
    done = await take_out(tk.backend, tmp_path / "out", keys=["sha256:0123456789ab…"])
    rows = await tk.backend.store.threads(limit=99)
    total = sum(row.next - row.start for row in rows)
    assert done == TakenOut(
        folder=str(tmp_path / "out"), tenant="local", threads=3, records=total, memories=1, keys=1, erasures=1
    )
    for row in rows:
        lines = [json.loads(line) for line in (tmp_path / "out" / "threads" / f"{row.id}.jsonl").read_text("utf-8").splitlines()]
        assert [line["ordinal"] for line in lines] == list(range(row.start, row.next))
        assert [line["digest"] for line in lines if not line["erased"]] == [
            format_digest(digest_body(line["body"].encode())) for line in lines if not line["erased"]
        ]
    memory = json.loads((tmp_path / "out" / "memory.json").read_text("utf-8"))
    assert [each["text"] for each in memory["now"]["memories"]] == [RULES[1]]
    audit = [json.loads(line) for line in (tmp_path / "out" / "audit.jsonl").read_text("utf-8").splitlines()]
    erasures = [(act["thread"], act["is"]["asked"], act["is"]["reason"]) for act in audit if act["act"] == "erasure"]
    assert erasures == [("one", [2], "asked to")]
    assert [act["archived"] for act in audit if act["thread"] == "two" and act["act"] == "description"] == [False, True]
    everything = "".join(path.read_text("utf-8") for path in (tmp_path / "out").rglob("*.*"))
    assert ("zanzibar" in everything, RULES[0] in everything) == (False, False)
    assert json.loads((tmp_path / "out" / "keys.json").read_text("utf-8")) == {
        "tenant": "local",
        "keys": ["sha256:0123456789ab…"],
    }


async def test_a_thread_put_away_is_not_read(tk: Threadkeep, clock: ManualClock) -> None:
    """It keeps what it taught before; put back, it is read on."""
    await say(tk, "one", RULES[0])
    clock.ms += 7 * HOUR_MS
    await tk.memory.run()
    thread = await tk.find("one")
    await thread.archive()
    await thread.record([user(RULES[1])])
    clock.ms += 7 * HOUR_MS
    assert await tk.memory.run() == MemoryPass(extracted=0, empty=0, failed=0, memories=1)
    await thread.unarchive()
    clock.ms += 7 * HOUR_MS
    await tk.memory.run()
    assert texts((await tk.memory.state()).memories) == sorted(RULES)


def test_the_commands_put_away_and_back_and_take_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`archive` leaves a thread out of the list, `unarchive` brings it back; `takeout` names keys, none of them whole."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THREADKEEP_STORE", str(tmp_path / "s.db"))
    monkeypatch.setenv("THREADKEEP_KEYS_FILE", str(tmp_path / "keys.toml"))
    Path("talk.json").write_text(json.dumps([user(RULES[0])]), encoding="utf-8")
    assert main(["import", "talk.json", "--format", "responses"]) == 0

    def out(*arguments: str) -> dict[str, object]:
        capfd.readouterr()
        assert main([*arguments, "--json"]) == 0
        answer: dict[str, object] = json.loads(capfd.readouterr().out)
        return answer

    def listed(*more: str) -> list[str]:
        found = out("threads", *more)["threads"]
        assert isinstance(found, list)
        return [thread["id"] for thread in found]

    (name,) = listed()
    assert out("archive", name[:10]) == {"threads": [{"id": name, "archived": True}]}
    assert (listed(), listed("--archived")) == ([], [name])
    assert main(["archive", name, "nowhere"]) == 1
    assert out("unarchive", name) == {"threads": [{"id": name, "archived": False}]}
    assert listed() == [name]
    key = str(out("key", "local", "--keys", "keys.toml")["key"])
    out("key", "other", "--keys", "keys.toml")
    assert out("takeout", "-o", "all")["keys"] == 1
    told = Path("all/keys.json").read_text("utf-8")
    assert (key in told, digest_key(key) in told, digest_key(key)[:19] in told) == (False, False, True)


def test_keys_are_told_apart_without_being_told(tmp_path: Path) -> None:
    """Of each of a tenant's keys the beginning of its digest, and of others' none."""
    mine, theirs = make_key(), make_key()
    path = tmp_path / "keys.toml"
    path.write_text(f'[keys]\n"{digest_key(mine)}" = "a"\n"{digest_key(theirs)}" = "b"\n', encoding="utf-8")
    assert KeysFile(path).list_digests("a") == [f"{digest_key(mine)[:19]}…"]
    assert KeysFile(path).list_digests("nobody") == []
