"""The `[hooks]` table of threadkeep.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.config import resolve
from threadkeep.errors import BadInput
from threadkeep.hooks import CommandHook, HookEvent, Hooks, Matcher, parse_hooks
from threadkeep.hooks.definitions import HookGroup

WRITTEN = """
[[hooks.PreCompact]]
matcher = "manual|auto"
hooks = [
  { type = "command", command = "python3 notes.py", timeout = 30 },
  { type = "command", command = ["/usr/bin/logger", "compacting"] },
]

[[hooks.PreCompact]]
hooks = [{ type = "command", command = "true", timeout = 0 }]

[[hooks.SessionStart]]
matcher = "^compact$"

[[hooks.SessionStart.hooks]]
type = "command"
command = "cat NOTES.md"
"""


def test_a_table_is_read_in_its_order() -> None:
    """Each hook is named by its place; the time is 600 s if none is given, and 1 s at least."""
    assert parse_hooks(tomllib.loads(WRITTEN)["hooks"]) == Hooks(
        groups=(
            HookGroup(
                event=HookEvent.PRE_COMPACT,
                matcher=Matcher("manual|auto"),
                hooks=(
                    CommandHook(command="python3 notes.py", timeout_s=30.0, name="hooks.PreCompact[0].hooks[0]"),
                    CommandHook(command=("/usr/bin/logger", "compacting"), timeout_s=600.0, name="hooks.PreCompact[0].hooks[1]"),
                ),
            ),
            HookGroup(
                event=HookEvent.PRE_COMPACT,
                matcher=Matcher(None),
                hooks=(CommandHook(command="true", timeout_s=1.0, name="hooks.PreCompact[1].hooks[0]"),),
            ),
            HookGroup(
                event=HookEvent.SESSION_START,
                matcher=Matcher("^compact$"),
                hooks=(CommandHook(command="cat NOTES.md", timeout_s=600.0, name="hooks.SessionStart[0].hooks[0]"),),
            ),
        )
    )


def test_an_empty_table_holds_no_hooks() -> None:
    """So does an event without groups."""
    assert parse_hooks({}) == parse_hooks({"PreCompact": []}) == Hooks()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"PreToolUse": []}, "hooks.PreToolUse: no such event; known: PreCompact, PostCompact, SessionStart"),
        ({"PreCompact": {}}, "hooks.PreCompact: expected `array`, got `object`"),
        ({"PreCompact": ["true"]}, "hooks.PreCompact[0]: expected `object`, got `str`"),
        ({"PreCompact": [{}]}, "hooks.PreCompact[0]: object missing required field `hooks`"),
        ({"PreCompact": [{"hooks": [], "on": 1}]}, "hooks.PreCompact[0]: object contains unknown field `on`"),
        ({"PreCompact": [{"hooks": [], "matcher": 1}]}, "hooks.PreCompact[0].matcher: expected `str | null`, got `int`"),
        (
            {"PreCompact": [{"hooks": [], "matcher": "("}]},
            "hooks.PreCompact[0].matcher: '(' is no matcher: missing ), unterminated subpattern at position 0; "
            "write manual|auto, *, or a regular expression",
        ),
        (
            {"PreCompact": [{"hooks": [{"type": "prompt"}]}]},
            "hooks.PreCompact[0].hooks[0].type: invalid enum value 'prompt'",
        ),
        (
            {"PreCompact": [{"hooks": [{"type": "command", "async": True}]}]},
            "hooks.PreCompact[0].hooks[0]: object contains unknown field `async`",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(table: dict[str, object], message: str) -> None:
    """The message says where and what."""
    with pytest.raises(BadInput) as caught:
        parse_hooks(table)
    assert str(caught.value) == message


@pytest.mark.parametrize("command", [None, "", "  ", 3, [], ["ls", 3], [""], {"run": "ls"}])
def test_a_command_is_a_line_or_a_program_with_arguments(command: object) -> None:
    """Anything else is refused before it could be started."""
    with pytest.raises(BadInput, match=r"^hooks\.PostCompact\[0\]\.hooks\[0\]\.command(\[\d\])?(:| is empty)"):
        parse_hooks({"PostCompact": [{"hooks": [{"type": "command", "command": command}]}]})


@pytest.mark.parametrize("timeout", ["30", 1.5, True, -1, 86_401, None])
def test_a_timeout_is_a_whole_number_of_seconds(timeout: object) -> None:
    """Up to a day."""
    with pytest.raises(BadInput, match=r"^hooks\.PostCompact\[0\]\.hooks\[0\]\.timeout: expected `int"):
        parse_hooks({"PostCompact": [{"hooks": [{"type": "command", "command": "true", "timeout": timeout}]}]})


words = st.sampled_from(["PreCompact", "SessionStart", "hooks", "matcher", "type", "command", "timeout", "x"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=12,
)


@given(table=st.dictionaries(words, anything, max_size=3))
def test_any_table_is_hooks_or_bad_input(table: dict[str, object]) -> None:
    """No other error comes out of a configuration."""
    try:
        read = parse_hooks(table)
    except BadInput:
        return
    assert len(read.groups) == sum(len(groups) for groups in table.values() if isinstance(groups, list))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('[[hooks.PreCompact]]\nmatcher = "("\nhooks = []', "hooks.PreCompact[0].matcher: '(' is no matcher: "),
        ("[[hooks.PreToolUse]]", "hooks.PreToolUse: no such event; known: PreCompact, PostCompact, SessionStart"),
        (
            "[[hooks.PostCompact]]\nhooks = [{type = 'command'}]",
            "hooks.PostCompact[0].hooks[0]: object missing required field `command`",
        ),
    ],
)
def test_a_mistake_in_a_file_is_named_with_the_file(tmp_path: Path, written: str, message: str) -> None:
    """As soon as it is read, whatever the command is about to do."""
    file = tmp_path / "threadkeep.toml"
    file.write_text(written)
    with pytest.raises(BadInput) as caught:
        resolve(flags={}, environ={}, project=None, user=file)
    assert str(caught.value).startswith(f"{file}: {message}")
