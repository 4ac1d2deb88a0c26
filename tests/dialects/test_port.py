"""The shipped checks of a dialect hold every member of its port: without any one of them, a check fails."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from tests.dialects.samples import SAMPLES

from threadkeep.dialects.api import (
    Api,
    BoundThinking,
    CacheMarkers,
    CompactionService,
    Continuation,
    Frames,
    MessageMerger,
    PromptCache,
    ProviderCompaction,
)
from threadkeep.dialects.base import Dialect, Wire
from threadkeep.dialects.hidden_tool import HiddenTool
from threadkeep.dialects.translation import ClientForm, UpstreamForm
from threadkeep.testing.dialect_api_checks import API_CHECKS
from threadkeep.testing.dialect_checks import CHECKS, DialectSamples

ABILITIES: dict[str, type] = {
    "thinking": BoundThinking,
    "cache_markers": CacheMarkers,
    "prompt_cache": PromptCache,
    "merger": MessageMerger,
    "continuation": Continuation,
    "compaction": ProviderCompaction,
    "compaction_service": CompactionService,
    "frames": Frames,
    "client_form": ClientForm,
    "upstream_form": UpstreamForm,
}
# Nothing is what these return where outputs are items of their own, where an answer is one message, and of unknown models.
MAY_RETURN_NOTHING = {("HiddenTool", "join_outputs"), ("Wire", "read_finished_item"), ("Api", "read_window")}
# Checks with thousands of cases; what they find, the others find too.
LONG = {"check_strange_items", "check_garbled_streams", "check_stream_chunks", "check_values_beyond_json_are_refused"}


def members(port: type) -> list[str]:
    """Return what a port asks for: its methods, properties and attributes."""
    named = {*vars(port), *getattr(port, "__annotations__", {})}
    return sorted(name for name in named if not name.startswith("_") and name not in {*ABILITIES, "wire", "api", "definition"})


def implementations(samples: DialectSamples) -> list[tuple[str, Any, list[str]]]:
    """Return each port's name, what implements it in a dialect, and its members."""
    dialect = samples.dialect
    made: list[tuple[str, Any, list[str]]] = [
        ("Dialect", type(dialect), members(Dialect)),
        ("Wire", dialect.wire, members(Wire)),
        ("Api", type(dialect.api), members(Api)),
        ("HiddenTool", HiddenTool, [name for name in members(HiddenTool) if name != "dialect"]),
    ]
    for name, port in ABILITIES.items():
        ability = getattr(dialect.api, name)
        if ability is not None:
            made.append((name, ability if isinstance(ability, ModuleType) else type(ability), members(port)))
    return made


def some_check_fails(samples: DialectSamples) -> bool:
    for check in (*API_CHECKS, *CHECKS):
        if check.__name__ in LONG:
            continue
        try:
            check(samples)
        except Exception:  # noqa: BLE001  # a broken member fails in its own way
            return True
    return False


@pytest.mark.parametrize("samples", SAMPLES, ids=[samples.dialect.name for samples in SAMPLES])
def test_no_member_of_the_port_can_be_left_out(samples: DialectSamples, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that returns nothing, and an attribute that is nothing of its kind, are found."""
    unproven = []
    for port, owner, names in implementations(samples):
        for name in names:
            is_method = callable(getattr(owner, name))
            with monkeypatch.context() as patched:
                patched.setattr(owner, name, (lambda *_, **__: None) if is_method else object())
                if (port, name) not in MAY_RETURN_NOTHING and not some_check_fails(samples):
                    unproven.append(f"{port}.{name}")
    assert unproven == []
    assert not some_check_fails(samples)
