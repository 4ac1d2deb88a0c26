"""Opening stores, naming threads, listing them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.histories import said, turns

import holdfast
from holdfast import Config, Holdfast
from holdfast.errors import AmbiguousThread, BadInput, InvalidThreadId, StoreClosed, ThreadNotFound, UnknownDialect

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["", "two words", "-dash", "a#1", "x" * 129, "naïve"])
async def test_a_name_that_no_pointer_can_write_is_refused(hf: Holdfast, name: str) -> None:
    """Nothing is created."""
    with pytest.raises(InvalidThreadId):
        await hf.thread(name)
    assert await hf.threads() == []


async def test_an_unknown_dialect_is_refused(hf: Holdfast) -> None:
    """Nothing is created."""
    with pytest.raises(UnknownDialect):
        await hf.thread("t", dialect="esperanto")
    assert await hf.threads() == []


async def test_a_thread_is_found_by_any_unambiguous_beginning(hf: Holdfast) -> None:
    """And an ambiguous one names the candidates."""
    for name in ("alpha", "alpine", "beta"):
        await hf.thread(name)
    assert (await hf.find("b")).id == "beta"
    with pytest.raises(AmbiguousThread, match="alpine"):
        await hf.find("al")
    with pytest.raises(ThreadNotFound):
        await hf.find("gamma")


async def test_a_whole_name_is_never_ambiguous(hf: Holdfast) -> None:
    """However many newer threads begin with it."""
    await hf.thread("run")
    for number in range(12):
        await (await hf.thread(f"run-{number}")).record([said("hi")])
    assert (await hf.find("run")).id == "run"


async def test_a_closed_store_says_so(store_file: Path) -> None:
    """Before it is opened and after it was closed."""
    hf = Holdfast(Config(store=str(store_file)))
    with pytest.raises(StoreClosed):
        await hf.thread("t")
    async with hf:
        await hf.thread("t")
    with pytest.raises(StoreClosed):
        await hf.thread("t")


async def test_a_store_of_another_kind_is_refused_without_its_password(tmp_path: Path) -> None:
    """The message names the scheme and nothing else of the address."""
    with pytest.raises(BadInput) as refused:
        async with holdfast.open("mysql://me:secret@db/x"):
            pass
    assert "postgresql" in str(refused.value)
    assert "secret" not in str(refused.value)


async def test_a_list_of_threads_says_what_each_holds(hf: Holdfast) -> None:
    """Turns on the live path, records, checkpoints, and the first line a person said."""
    thread = await hf.thread("t")
    await thread.record(turns(1, 4))
    await thread.compact()
    await thread.rollback(turns=1)
    (summary,) = await hf.threads()
    assert (summary.id, summary.title, summary.turns, summary.parent) == ("t", "Please look into part 1 of the parser.", 3, None)
    assert summary.records == len(await thread.records())


async def test_no_tenant_sees_anothers_threads(store_file: Path) -> None:
    """Same file, same name, two threads."""
    async with Holdfast(Config(store=str(store_file), tenant="a")) as one:
        await (await one.thread("t")).record([said("mine")])
    async with Holdfast(Config(store=str(store_file), tenant="b")) as other:
        assert list(await (await other.thread("t")).window()) == []
