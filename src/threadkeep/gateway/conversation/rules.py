"""What a gateway may do to which conversation: one value, made from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from threadkeep.config import Config
from threadkeep.gateway.conversation.command_detection import CommandNames

# `off`: only when a person asks. `background`: prepared at the soft limit while requests go on, and only the hard limit waits.
# `on`: at the hard limit, before the request goes out.
AutoCompact = Literal["off", "background", "on"]
# What becomes of thinking that a provider bound to a history the gateway has replaced. `strip`: it is taken out, and only that of
# a running tool loop is sent along with the request to drop what no longer fits. `drop_block`: all of it is sent along so.
Thinking = Literal["strip", "drop_block"]
ShowsMemory = Literal["off", "on", "all"]
AsksModel = Literal["auto", "no", "yes"]

CLAUDE_CODE: Final = "claude-code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How conversations are treated.

    Attributes:
        auto_compact: What holds where `auto_compact_for` says nothing.
        auto_compact_for: By client or by the beginning of a model's name; the client counts first, then the longest name. Claude
            Code's vendor asks gateways to leave its requests alone, so it is `off` unless named here.
        asks_model: Whether a compaction may ask the client's own model, on the client's account. `auto`: where conversations like
            it are compacted automatically, and no request waits for it. Recording alone never asks.
        memory: Whose conversations are shown what is remembered: nobody's, everybody's but Claude Code's, or everybody's.
        recall: Whether models are given a tool to recall with; `recall_for` says it by client or by the beginning of a model's
            name, as `auto_compact_for` does. Claude Code's are not, unless it is named there.
        derives_cache_key: Whether a request without a `prompt_cache_key` is given one that is the conversation's own.
        sets_breakpoints: Whether the ends of head and checkpoint are marked for models that find a prefix only by such marks.
    """

    auto_compact: AutoCompact = "off"
    auto_compact_for: Mapping[str, AutoCompact] = field(default_factory=dict)
    thinking: Thinking = "strip"
    commands: CommandNames = field(default_factory=CommandNames)
    asks_model: AsksModel = "auto"
    memory: ShowsMemory = "off"
    recall: bool = False
    recall_for: Mapping[str, str] = field(default_factory=dict)
    derives_cache_key: bool = False
    sets_breakpoints: bool = False

    def may_ask_model(self, *, client: str, model: str, is_urgent: bool) -> bool:
        """Whether a compaction of this client's conversations may ask their own model; `is_urgent`: a request waits for it."""
        if self.asks_model != "auto":
            return self.asks_model == "yes"
        return not is_urgent and self.find_mode(client=client, model=model) != "off"

    def can_recall(self, *, client: str, model: str) -> bool:
        """Whether the model of this client's conversations is given a tool to recall with."""
        if client in self.recall_for:
            return self.recall_for[client] == "yes"
        if client == CLAUDE_CODE:
            return False
        named = [name for name in self.recall_for if name and model.startswith(name)]
        return self.recall_for[max(named, key=len)] == "yes" if named else self.recall

    def can_show_memory(self, *, client: str) -> bool:
        """Whether a new conversation of this client is shown what is remembered."""
        return self.memory == "all" or (self.memory == "on" and client != CLAUDE_CODE)

    def find_mode(self, *, client: str, model: str) -> AutoCompact:
        """Return how conversations of this client with this model are compacted."""
        if client in self.auto_compact_for:
            return self.auto_compact_for[client]
        if client == CLAUDE_CODE:
            return "off"
        named = [name for name in self.auto_compact_for if name and model.startswith(name)]
        return self.auto_compact_for[max(named, key=len)] if named else self.auto_compact


def make_rules(config: Config, *, auto_compact: bool = False) -> Rules:
    """Return what the configuration says; `auto_compact` turns automatic compaction on where it is off there."""
    mode = cast(AutoCompact, config.auto_compact)
    names = CommandNames(compact=tuple(config.compact_commands.split()), control=tuple(config.control_commands.split()))
    return Rules(
        auto_compact="on" if auto_compact and mode == "off" else mode,
        auto_compact_for=cast(Mapping[str, AutoCompact], config.auto_compact_for),
        thinking=cast(Thinking, config.bound_thinking),
        commands=names,
        asks_model=cast(AsksModel, config.gateway_asks_model),
        memory=cast(ShowsMemory, config.gateway_memory),
        recall=config.gateway_recall_tool == "yes",
        recall_for=config.gateway_recall_tool_for,
        derives_cache_key=config.prompt_cache_key == "derived",
        sets_breakpoints=config.prompt_cache_breakpoints == "yes",
    )
