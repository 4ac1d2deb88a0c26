"""Opening stores, naming threads, listing them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.histories import said, turns

import threadkeep
from threadkeep import Config, Threadkeep
from threadkeep.errors import AmbiguousThread, BadInput, InvalidThreadId, StoreClosed, ThreadNotFound, UnknownDialect

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["", "two words", "-dash", "a#1", "x" * 129, "naïve"])
async def test_a_name_that_no_pointer_can_write_is_refused(tk: Threadkeep, name: str) -> None:
    """Nothing is created."""
    with pytest.raises(InvalidThreadId):
        await tk.thread(name)
    assert await tk.threads() == []


async def test_an_unknown_dialect_is_refused(tk: Threadkeep) -> None:
    """Nothing is created."""
    with pytest.raises(UnknownDialect):
        await tk.thread("t", dialect="esperanto")
    assert await tk.threads() == []


async def test_a_thread_is_found_by_any_unambiguous_beginning(tk: Threadkeep) -> None:
    """And an ambiguous one names the candidates."""
    for name in ("alpha", "alpine", "beta"):
        await tk.thread(name)
    assert (await tk.find("b")).id == "beta"
    with pytest.raises(AmbiguousThread, match="alpine"):
        await tk.find("al")
    with pytest.raises(ThreadNotFound):
        await tk.find("gamma")


async def test_a_whole_name_is_never_ambiguous(tk: Threadkeep) -> None:
    """However many newer threads begin with it."""
    await tk.thread("run")
    for number in range(12):
        await (await tk.thread(f"run-{number}")).record([said("hi")])
    assert (await tk.find("run")).id == "run"


async def test_a_closed_store_says_so(store_file: Path) -> None:
    """Before it is opened and after it was closed."""
    tk = Threadkeep(Config(store=str(store_file)))
    with pytest.raises(StoreClosed):
        await tk.thread("t")
    async with tk:
        await tk.thread("t")
    with pytest.raises(StoreClosed):
        await tk.thread("t")


async def test_a_store_of_another_kind_is_refused_without_its_password(tmp_path: Path) -> None:
    """The message names the scheme and nothing else of the address."""
    with pytest.raises(BadInput) as refused:
        async with threadkeep.open("mysql://me:secret@db/x"):
            pass
    assert "postgresql" in str(refused.value)
    assert "secret" not in str(refused.value)


async def test_a_list_of_threads_says_what_each_holds(tk: Threadkeep) -> None:
    """Turns on the live path, records, checkpoints, and the first line a person said."""
    thread = await tk.thread("t")
    await thread.record(turns(1, 4))
    await thread.compact()
    await thread.rollback(turns=1)
    (summary,) = await tk.threads()
    assert (summary.id, summary.title, summary.turns, summary.parent) == ("t", "Please look into part 1 of the parser.", 3, None)
    assert summary.records == len(await thread.records())


async def test_no_tenant_sees_anothers_threads(store_file: Path) -> None:
    """The same name in the same file is two threads for two tenants."""
    async with Threadkeep(Config(store=str(store_file), tenant="a")) as one:
        await (await one.thread("t")).record([said("mine")])
    async with Threadkeep(Config(store=str(store_file), tenant="b")) as other:
        assert list(await (await other.thread("t")).window()) == []
