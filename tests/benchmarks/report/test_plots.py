"""Pictures of a report, where matplotlib is installed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.benchmarks.report.test_report import part

from benchmarks.command.proxies import named_proxies
from benchmarks.gateway.contenders import proxies
from benchmarks.report.part import Part
from benchmarks.report.plots import write_plots
from threadkeep.errors import BadInput


def store() -> Part:
    value = {"median": 1.0, "low": 1.0, "high": 1.0, "samples": 1}
    figures = [{"measure": "append", "contender": "threadkeep", "size": size, "value": value} for size in (10, 1_000)]
    return msgspec.structs.replace(part("store"), data={"figures": figures})


def test_a_part_is_drawn_twice_and_the_same_every_time(tmp_path: Path) -> None:
    """As SVG and PNG; parts without a picture have none."""
    pytest.importorskip("matplotlib", reason="plots need matplotlib (dependency group bench)")
    assert write_plots({"store": store(), "start": part("start")}, tmp_path) == ["store.svg"]
    first = (tmp_path / "store.svg").read_bytes()
    write_plots({"store": store()}, tmp_path)
    assert (tmp_path / "store.svg").read_bytes() == first
    assert sorted(file.name for file in tmp_path.iterdir()) == ["store.png", "store.svg"]


def test_peers_have_a_picture_of_their_own(tmp_path: Path) -> None:
    """Beside the library's own curve; without peers there is none."""
    pytest.importorskip("matplotlib", reason="plots need matplotlib (dependency group bench)")
    columns = ["arm", "hop", "kind", "kept", "asked"]
    rows = [["extractive", hop, "rule", 4, 4] for hop in (1, 5)]
    ours = msgspec.structs.replace(part("retention-story"), data={"cells": {"columns": columns, "rows": rows}})
    assert write_plots({"retention-story": ours}, tmp_path) == ["retention-story.svg"]
    beside = {"cells": {"columns": columns, "rows": [*rows, ["hermes, lossy", 5, "rule", 2, 4]]}}
    found = write_plots({"retention-story": msgspec.structs.replace(ours, data=beside)}, tmp_path)
    assert found == ["retention-story.svg", "retention-story-peers.svg"]
    assert "hermes, lossy" in (tmp_path / found[1]).read_text(encoding="utf-8")


def test_a_proxy_of_another_environment_is_named_with_its_interpreter() -> None:
    """Another name, or none behind it, is refused; an interpreter without it has no version."""
    assert named_proxies(["litellm=/opt/l/bin/python"]) == {"litellm": "/opt/l/bin/python"}
    with pytest.raises(BadInput, match="litellm or headroom"):
        named_proxies(["litellm"])
    with pytest.raises(BadInput, match="'tape=x' names no proxy"):
        named_proxies(["tape=x"])
    there = {proxy.name: proxy.version for proxy in proxies({"litellm": "/nowhere/python"})}
    assert there["LiteLLM proxy"] is None
