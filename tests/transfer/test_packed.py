"""Packed rollouts that are not all there."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import zstandard
from tests.transfer.rollouts import THREAD, answer, bring_in, item, meta, spoken, turn, window, written

from threadkeep import Threadkeep
from threadkeep.errors import UnknownFormat


@pytest.mark.anyio
async def test_a_packed_rollout_that_was_cut_says_so(tk: Threadkeep, tmp_path: Path) -> None:
    """What could be unpacked is imported, the torn line as a note and named; a file without a whole line is refused."""
    noise = Random(1)
    lines = [item(answer(f"{noise.getrandbits(8_000):x}")) for _ in range(400)]
    whole = zstandard.ZstdCompressor().compress(written(meta(), *turn(1), *lines))
    packed = tmp_path / "r.jsonl.zst"
    packed.write_bytes(whole[: len(whole) // 2])
    report = await bring_in(tk, packed)
    items = await window(tk, THREAD)
    assert items == [*spoken(1), *(line["payload"] for line in lines[: len(items) - len(spoken(1))])]
    assert [problem.text for problem in report.problems] == ["not a JSON object"]
    assert report.problems[-1].line >= len(turn(1)) + len(items) - len(spoken(1))
    packed.write_bytes(whole)
    assert (await bring_in(tk, packed)).problems == ()
    packed.write_bytes(whole[:2_000])
    with pytest.raises(UnknownFormat):
        await bring_in(tk, packed)
