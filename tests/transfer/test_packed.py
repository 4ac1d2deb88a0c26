"""Packed rollouts that are not all there."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.transfer.rollouts import THREAD, answer, bring_in, item, meta, spoken, turn, window, written

from threadkeep import Threadkeep
from threadkeep.errors import UnreadableTranscript
from threadkeep.transfer.files import is_cut


@pytest.mark.anyio
async def test_a_packed_rollout_that_was_cut_says_so(tk: Threadkeep, tmp_path: Path) -> None:
    """What could be unpacked is imported, the torn line as a note; that the file ends too early is said of its last line."""
    noise = Random(1)
    lines = [item(answer(f"{noise.getrandbits(8_000):x}")) for _ in range(400)]
    whole = zstandard.ZstdCompressor().compress(written(meta(), *turn(1), *lines))
    packed = tmp_path / "r.jsonl.zst"
    packed.write_bytes(whole[: len(whole) // 2])
    report = await bring_in(tk, packed)
    cut = "it is cut: its packed content ends too early, and what followed is not in it"
    assert report.problems[-1].text == f"{str(packed)!r} cannot be imported: {cut}"
    items = await window(tk, THREAD)
    assert items == [*spoken(1), *(line["payload"] for line in lines[: len(items) - len(spoken(1))])]
    assert report.problems[-1].line >= len(turn(1)) + len(items) - len(spoken(1))
    packed.write_bytes(whole)
    assert (await bring_in(tk, packed)).problems == ()
    packed.write_bytes(whole[:2_000])
    with pytest.raises(UnreadableTranscript, match=cut):
        await bring_in(tk, packed)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.binary(max_size=3_000), st.booleans(), st.booleans()), min_size=1, max_size=3), st.data())
def test_a_packed_file_is_cut_wherever_no_frame_ends(frames: list[tuple[bytes, bool, bool]], data: st.DataObject) -> None:
    """With or without checksums and sizes, one frame or several, and a frame that says nothing between them."""
    packed, ends = b"", {0}
    for content, checksum, sized in frames:
        compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=sized)
        packed += compressor.compress(content * 90)
        ends.add(len(packed))
        packed += b"\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"
        ends.add(len(packed))
    stop = data.draw(st.integers(1, len(packed)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.zst"
        path.write_bytes(packed[:stop])
        assert is_cut(path) == (stop not in ends)
