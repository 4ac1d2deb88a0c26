"""Facts about the work: what tool calls and their results prove, in every dialect, wherever the records are split."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dialects.samples import SAMPLES

from threadkeep.compaction.facts.facts import (
    CHANGED_KEPT,
    COMMANDS_KEPT,
    OPEN_KEPT,
    Facts,
    ObservedItem,
    fold,
    render_facts,
    tell_work,
)
from threadkeep.compaction.facts.shell import read_line
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.items import Item
from threadkeep.testing.dialect_checks import DialectSamples
from threadkeep.threads import Pointer

Json = dict[str, Any]

RESPONSES: Final = find_dialect("responses")
CHAT: Final = find_dialect("chat")
MESSAGES: Final = find_dialect("messages")
GEMINI: Final = find_dialect("gemini")
ALL: Final = (RESPONSES, CHAT, MESSAGES, GEMINI)
DIALECTS: Final = {samples.dialect.name: samples for samples in SAMPLES}

PATCH: Final = (
    "*** Begin Patch\n*** Add File: src/new.py\n+x = 1\n*** Update File: src/old.py\n@@\n-a\n+b\n"
    "*** Delete File: src/gone.py\n*** Update File: src/here.py\n*** Move to: src/there.py\n@@\n-a\n+b\n*** End Patch"
)
PATCHED: Final = ["changed src/new.py", "changed src/old.py", "deleted src/gone.py", "changed src/there.py"]


def call(dialect: Dialect, call_id: str, name: str, arguments: object) -> Json:
    """A call of a named tool, as each dialect's provider writes it; text as arguments is a custom tool's input."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    match dialect.name:
        case "responses" if isinstance(arguments, str):
            return {"type": "custom_tool_call", "name": name, "input": text, "call_id": call_id}
        case "responses":
            return {"type": "function_call", "name": name, "arguments": text, "call_id": call_id}
        case "chat":
            function = {"name": name, "arguments": text}
            return {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            }
        case "gemini":
            return {"role": "model", "parts": [{"functionCall": {"id": call_id, "name": name, "args": arguments}}]}
        case _:
            use = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
            return {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, use]}


def output(dialect: Dialect, call_id: str, text: str, *, failed: bool | None = None) -> Json:
    match dialect.name:
        case "responses":
            return {"type": "function_call_output", "call_id": call_id, "output": text}
        case "chat":
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case "gemini":
            answered = {"id": call_id, "name": "f", "response": {"error" if failed else "output": text}}
            return {"role": "user", "parts": [{"functionResponse": answered}]}
        case _:
            flag = {} if failed is None else {"is_error": failed}
            return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": text, **flag}]}


def said(dialect: Dialect, text: str) -> Json:
    return DIALECTS[dialect.name].person(text)


def observed(dialect: Dialect, values: Sequence[Json]) -> list[ObservedItem]:
    items = [Item(json.dumps(value).encode()) for value in values]
    return [
        ObservedItem(view=dialect.view(item), source=Pointer("t", number), item=item)
        for number, item in enumerate(items, start=1)
    ]


def lines(dialect: Dialect, values: Sequence[Json], part: str) -> list[str]:
    """The lines of one part of the facts that a history shows."""
    facts = fold(Facts(), observed(dialect, values))
    if part == "commands":
        return [line for line in tell_work(Facts(), facts) if line.startswith("ran ")]
    return [line.text for line in getattr(render_facts(facts), part)]


def used(dialect: Dialect, name: str, arguments: object, answer: str, *, failed: bool | None = None) -> list[Json]:
    return [call(dialect, "c", name, arguments), output(dialect, "c", answer, failed=failed)]


def ran(dialect: Dialect, command: str, answer: str, *, failed: bool | None = None) -> list[Json]:
    return used(dialect, "Bash" if dialect is MESSAGES else "shell", {"command": command}, answer, failed=failed)


# Files.


@pytest.mark.parametrize(
    ("dialect", "name", "arguments", "answer", "changed"),
    [
        (MESSAGES, "Edit", {"file_path": "/w/a.py", "old_string": "b", "new_string": "c.py"}, "updated", ["changed /w/a.py"]),
        (MESSAGES, "Write", {"file_path": "/w/a.py", "content": "see b.py"}, "File created", ["changed /w/a.py"]),
        (MESSAGES, "MultiEdit", {"file_path": "/w/a.py", "edits": []}, "Applied 1 edit", ["changed /w/a.py"]),
        (MESSAGES, "NotebookEdit", {"notebook_path": "/w/a.ipynb", "new_source": "x"}, "Updated", ["changed /w/a.ipynb"]),
        (RESPONSES, "apply_patch", PATCH, "Success. Updated the following files:\nA src/new.py", PATCHED),
        (RESPONSES, "apply_patch", {"input": PATCH}, '{"output":"Success.","metadata":{"exit_code":0}}', PATCHED),
        (
            RESPONSES,
            "shell",
            {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]},
            '{"output":"Success.","metadata":{"exit_code":0,"duration_seconds":0.1}}',
            PATCHED,
        ),
        (RESPONSES, "shell", {"command": ["apply_patch", PATCH]}, "Exit code: 0\nOutput:\nSuccess.", PATCHED),
        (RESPONSES, "exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"}, "Process exited with code 0", PATCHED),
        (
            RESPONSES,
            "exec",
            'const r = await tools.exec_command({cmd: "sed -i s/a/b/ a.py", workdir: "/w"});\ntext(r.output);',
            "Script completed\nWall time 0.1 seconds\nOutput:\n",
            ["changed /w/a.py"],
        ),
        (RESPONSES, "exec", f"text(await tools.apply_patch(`{PATCH}`));", "Script completed\nOutput:\nSuccess.", PATCHED),
        (RESPONSES, "exec", f"text(await tools.apply_patch(`{PATCH}`));", "Script failed\nOutput:\nno such lines", []),
        (RESPONSES, "exec", "text('tools are fine')", "Script completed\nOutput:\ntools are fine", []),
        (CHAT, "edit", {"filePath": "src/a.ts", "oldString": "a", "newString": "b"}, "", ["changed src/a.ts"]),
        (CHAT, "patch", {"patchText": PATCH}, "Patch applied", PATCHED),
        (MESSAGES, "write", {"path": "src/a.ts", "content": "x"}, "Successfully wrote 1 bytes", ["changed src/a.ts"]),
        (CHAT, "write_to_file", {"path": "src/a.ts", "content": "x"}, "saved", ["changed src/a.ts"]),
        (CHAT, "replace", {"file_path": "src/a.ts", "old_string": "a", "new_string": "b"}, "ok", ["changed src/a.ts"]),
        (CHAT, "str_replace_editor", {"command": "create", "path": "/w/a.py"}, "File created", ["changed /w/a.py"]),
        (CHAT, "str_replace_editor", {"command": "view", "path": "/w/a.py"}, "1 x", []),
        (CHAT, "edit", {"search": "a", "replace": "b"}, "done\n(Open file: /w/a.py)\nbash-$", ["changed /w/a.py"]),
        (CHAT, "delete_file", {"path": "./src/a.ts"}, "ok", ["deleted src/a.ts"]),
        (GEMINI, "write_file", {"file_path": "src/a.ts", "content": "x"}, "written", ["changed src/a.ts"]),
        (GEMINI, "run_shell_command", {"command": "sed -i s/a/b/ a.py"}, "Exit Code: 0", ["changed a.py"]),
        # Tools that read, and tools nobody knows.
        (MESSAGES, "Read", {"file_path": "/w/a.py"}, "x", []),
        (CHAT, "update_reservation", {"path": "JFK/SEA", "flights": ["a.py"]}, "ok", []),
        (CHAT, "my_editor", {"path": "src/a.ts", "text": "x"}, "ok", []),
        (CHAT, "patch", {"path": "/users/1", "body": {"name": "x"}}, "ok", []),
        (CHAT, "write", {"path": "https://example.test/a", "content": "x"}, "ok", []),
        (CHAT, "write", {"path": {"a": 1}, "content": "x"}, "ok", []),
    ],
)
def test_a_file_is_changed_by_a_tool_that_changes_files(
    dialect: Dialect, name: str, arguments: object, answer: str, changed: list[str]
) -> None:
    """Each client's edit, write and patch forms; what other arguments and other tools name is not changed."""
    assert lines(dialect, used(dialect, name, arguments, answer), "changed") == changed


@pytest.mark.parametrize(
    ("dialect", "name", "arguments", "answer", "failed"),
    [
        (MESSAGES, "Edit", {"file_path": "/w/a.py"}, "String to replace not found in file.", True),
        (MESSAGES, "Edit", {"file_path": "/w/a.py"}, "The user doesn't want to proceed with this tool use.", True),
        (CHAT, "edit", {"filePath": "src/a.ts"}, "Error: Could not find oldString in the file.", None),
        (
            CHAT,
            "str_replace_editor",
            {"command": "str_replace", "path": "/w/a.py"},
            "No replacement was performed, old_str …",
            None,
        ),
        (RESPONSES, "apply_patch", PATCH, "apply_patch verification failed: Failed to find expected lines", None),
        (RESPONSES, "apply_patch", PATCH, '{"output":"nope","metadata":{"exit_code":1}}', None),
        (RESPONSES, "shell", {"command": "sed -i s/a/b/ a.py"}, "Exit code: 2\nOutput:\nsed: can't read a.py", None),
        (CHAT, "bash", {"command": "sed -i s/a/b/ a.py; ls"}, "sed: can't read a.py: No such file or directory", None),
        (RESPONSES, "apply_patch", {"input": PATCH}, "patch rejected by user", None),
        (RESPONSES, "shell", {"command": ["apply_patch", PATCH]}, "exec command rejected by user", None),
        (GEMINI, "replace", {"file_path": "src/a.ts"}, "0 occurrences found", True),
    ],
)
def test_a_call_answered_with_an_error_changes_nothing(
    dialect: Dialect, name: str, arguments: object, answer: str, *, failed: bool | None
) -> None:
    """An error is recognised by the client's flag, an exit code, or the tool's first words."""
    assert lines(dialect, used(dialect, name, arguments, answer, failed=failed), "changed") == []


def test_a_call_without_an_answer_changes_nothing() -> None:
    """Not before its answer came."""
    assert lines(MESSAGES, [call(MESSAGES, "c", "Write", {"file_path": "/w/a.py"})], "changed") == []


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("echo x > out.txt", ["changed out.txt"]),
        ("echo x >> logs/out.txt && make", ["changed logs/out.txt"]),
        ("cat > src/a.py <<'EOF'\nif a > b:\n    print('> c.py')\nEOF", ["changed src/a.py"]),
        ("cat <<-EOF > src/a.py\n\tx\n\tEOF\nls", ["changed src/a.py"]),
        ("make 2>&1 | tee build/log.txt", ["changed build/log.txt"]),
        ("sed -i 's/a/b/' a.py b.py", ["changed a.py", "changed b.py"]),
        ("sed -i '' -e 's/a/b/' a.py", ["changed a.py"]),
        ("sed -i.bak 's|a|b|' src/a.py", ["changed src/a.py"]),
        ("perl -pi -e 's/a/b/' a.py", ["changed a.py"]),
        ("cd src && sed -i s/a/b/ a.py", ["changed src/a.py"]),
        ("cd /w/src && echo x > a.py", ["changed /w/src/a.py"]),
        ("mv a.py b.py", ["changed b.py"]),
        ("git mv a.py lib/", ["changed lib/a.py"]),
        ("cp a.py b.py", ["changed b.py"]),
        ("rm a.py", ["deleted a.py"]),
        ("touch a.py", ["changed a.py"]),
        # Quotes, comparisons, numbers of files, nothing at all.
        ("awk '$1 > 3' a.txt", []),
        ('node -e "if (a > b) c()"', []),
        ('python -c \'open("a", "w")\'', []),
        ("[ a > b ]", []),
        ("make 2> err.log", []),
        ("make > /dev/null 2>&1", []),
        ("make > /tmp/out.log", []),
        ("ssh host 'cat > a.py'", []),
        # What can not be told for certain.
        ("echo x > $HOME/a.py", []),
        ("rm *.py", []),
        ("false || echo x > a.py", []),
        ("if true; then rm a.py; fi", []),
        ("for f in *.py; do sed -i s/a/b/ $f; done", []),
        ("(cd src; echo x > a.py)", []),
        ("echo $(cat b) > a.py", []),
        ('echo "unclosed > a.py', []),
        ("cd $DIR && echo x > a.py", []),
        ("mv a.py src", []),
        ("mv src/*.py lib/", []),
        ("cp $FLAGS a.py b.py", []),
        ("rm a.py *.log", ["deleted a.py"]),
        ("cat > 'app/[id]/page.tsx' <<'EOF'\nx\nEOF", ["changed app/[id]/page.tsx"]),
        ("cp -r src lib", []),
        ("mkdir -p src", []),
        ("rm -rf dist", []),
        ("git checkout feature/a.py", []),
        ("git fetch origin main/x.y", []),
    ],
)
def test_a_shell_command_changes_what_its_line_says_for_certain(command: str, changed: list[str]) -> None:
    """Redirections, in-place edits, moves and deletions of plain lines; in doubt nothing."""
    answer = '{"output":"","metadata":{"exit_code":0}}'
    assert lines(RESPONSES, used(RESPONSES, "shell", {"command": ["bash", "-lc", command]}, answer), "changed") == changed


def test_the_newest_change_of_a_file_stands_last_under_its_newest_record() -> None:
    """One line a file, however it is spelled; a deleted, moved or reverted file is no longer a changed one."""
    items = [
        *used(MESSAGES, "Write", {"file_path": "/w/src/a.py"}, "ok"),
        *used(MESSAGES, "Write", {"file_path": "/w/src/b.py"}, "ok"),
        *used(MESSAGES, "Edit", {"file_path": "src/a.py"}, "ok"),
        *used(MESSAGES, "Write", {"file_path": "/w/tmp.py"}, "ok"),
        *ran(MESSAGES, "rm tmp.py", "", failed=False),
        *used(MESSAGES, "Write", {"file_path": "/w/c.py"}, "ok"),
        *ran(MESSAGES, "cd /w && git checkout -- c.py", "", failed=False),
    ]
    found = render_facts(fold(Facts(), observed(MESSAGES, items))).changed
    assert [(line.text, str(line.source)) for line in found] == [
        ("changed /w/src/b.py", "t#3"),
        ("changed src/a.py", "t#5"),
        ("deleted tmp.py", "t#9"),
    ]


# Commands.


@pytest.mark.parametrize(
    ("dialect", "answer", "failed", "line"),
    [
        (RESPONSES, '{"output":"fine","metadata":{"exit_code":0}}', None, "ran `make test`: ok"),
        (
            RESPONSES,
            '{"output":"FAILED test_a","metadata":{"exit_code":2}}',
            None,
            "ran `make test`: failed, exit 2: FAILED test_a",
        ),
        (
            RESPONSES,
            "Exit code: 2\nWall time: 1 seconds\nOutput:\nFAILED test_a",
            None,
            "ran `make test`: failed, exit 2: FAILED test_a",
        ),
        (RESPONSES, "Chunk ID: a\nWall time: 1 s\nProcess exited with code 0\nOutput:\nfine", None, "ran `make test`: ok"),
        (RESPONSES, "Chunk ID: a\nProcess running with session ID 42\nOutput:\n", None, "ran `make test`: started, session 42"),
        (MESSAGES, "fine", False, "ran `make test`: ok"),
        (MESSAGES, "Exit code 2\nerror: no rule", True, "ran `make test`: failed, exit 2: error: no rule"),
        (MESSAGES, "no rule\n\nCommand exited with code 2", True, "ran `make test`: failed, exit 2: no rule"),
        (MESSAGES, "the log says: error: exit code 7", False, "ran `make test`: ok"),
        (CHAT, "Stdout: a\nError: (none)\nExit Code: 1\nSignal: (none)", None, "ran `make test`: failed, exit 1: Error: (none)"),
        (CHAT, '{"output": "fine", "exit_code": 0, "error": null}', None, "ran `make test`: ok"),
        (CHAT, "fine\n[The command completed with exit code 0.]", None, "ran `make test`: ok"),
        (CHAT, "Traceback (most recent call last):\n  x\nKeyError: 'a'", None, "ran `make test`: failed, KeyError: 'a'"),
        (CHAT, "make: *** [Makefile:2: test] Error 1", None, "ran `make test`: failed, make: *** [Makefile:2: test] Error 1"),
        # Nothing tells how it ended: words like these stand in many a log.
        (CHAT, "3 tests, error handling covered\nall good", None, "ran `make test`"),
        (CHAT, "exit code 3 is documented in the manual\n" * 20 + "end", None, "ran `make test`"),
    ],
)
def test_an_outcome_is_what_the_client_says(dialect: Dialect, answer: str, line: str, *, failed: bool | None) -> None:
    """A flag or an exit code in its place; without either only a clear end of a failure counts."""
    assert lines(dialect, ran(dialect, "make test", answer, failed=failed), "commands") == [line]


def test_a_command_is_listed_once_and_looking_is_not() -> None:
    """A second run of the same replaces the first; the folder, variables, flags and a pager make no difference."""
    items = [
        *ran(MESSAGES, "cat a.py | head -5", "x", failed=False),
        *ran(MESSAGES, "make test", "no", failed=True),
        *ran(MESSAGES, "git status && rg foo", "x", failed=False),
        *ran(MESSAGES, "cd /w && CI=1 make -s test 2>&1 | tail -3", "5 passed", failed=False),
        *ran(MESSAGES, "git push", "", failed=False),
    ]
    assert lines(MESSAGES, items, "commands") == ["ran `CI=1 make -s test 2>&1 | tail -3`: ok", "ran `git push`: ok"]


def test_the_end_of_a_pipeline_is_no_proof() -> None:
    """Exit code 0 of `tail` says nothing about `make`: what was printed is quoted, and nothing is claimed."""
    items = ran(MESSAGES, "make test | tail -3", "src/a.c:3: error: no", failed=False)
    assert lines(MESSAGES, items, "commands") == ["ran `make test | tail -3`: it printed: src/a.c:3: error: no"]


def test_a_process_left_running_gets_its_outcome_when_it_ends() -> None:
    items = [
        *used(RESPONSES, "exec_command", {"cmd": "npm run build"}, "Process running with session ID 42\nOutput:\n"),
        *used(RESPONSES, "write_stdin", {"session_id": 42, "chars": ""}, "Process exited with code 1\nOutput:\nerror: no"),
    ]
    assert lines(RESPONSES, items, "commands") == ["ran `npm run build`: failed, exit 1: error: no"]


def test_credentials_in_a_command_are_masked() -> None:
    items = ran(MESSAGES, "deploy --token=abcdefgh12345678", "", failed=False)
    assert lines(MESSAGES, items, "commands") == ["ran `deploy --token=abcd…[secret, 16 characters]`: ok"]


# The last error.

FAILED: Final = ran(RESPONSES, "make test", '{"output":"FAILED test_rounding","metadata":{"exit_code":2}}')
FINE: Final = '{"output":"","metadata":{"exit_code":0}}'


@pytest.mark.parametrize(
    "since",
    [
        ran(RESPONSES, "make test", FINE),
        ran(RESPONSES, "cd /w && make  test", FINE),
        ran(RESPONSES, "CI=1 make test 2>&1 | tail -20", FINE),
        ran(RESPONSES, "git add a && make test && git push", FINE),
        [said(RESPONSES, "Leave it."), said(RESPONSES, "Write the docs.")],
    ],
)
def test_an_error_goes_when_it_is_put_right(since: list[Json]) -> None:
    """The error goes when the same command succeeds, or when people have turned to something else twice."""
    standing = ["last error: `make test`: exit 2: FAILED test_rounding"]
    assert lines(RESPONSES, FAILED, "failure") == standing
    assert lines(RESPONSES, [*FAILED, *since], "failure") == []


@pytest.mark.parametrize(
    "since",
    [
        ran(RESPONSES, "make lint", FINE),
        ran(RESPONSES, "echo make test", FINE),
        used(RESPONSES, "apply_patch", PATCH, "Success."),
        ran(RESPONSES, "cat src/a.py", '{"output":"","metadata":{"exit_code":1}}'),
        [said(RESPONSES, "Why does it fail?")],
        ran(RESPONSES, "make docs", '{"output":"no","metadata":{"exit_code":2}}') + ran(RESPONSES, "make docs", FINE),
    ],
)
def test_an_error_stands_while_nothing_has_put_it_right(since: list[Json]) -> None:
    """Another command, an edit, a look that fails, one question, or another error that was put right change nothing."""
    assert lines(RESPONSES, [*FAILED, *since], "failure") == ["last error: `make test`: exit 2: FAILED test_rounding"]


def test_a_failed_edit_stands_until_the_file_is_edited() -> None:
    failed = used(MESSAGES, "Edit", {"file_path": "/w/a.py"}, "String to replace not found in file.", failed=True)
    other = used(MESSAGES, "Edit", {"file_path": "/w/b.py"}, "ok", failed=False)
    right = used(MESSAGES, "Write", {"file_path": "/w/a.py"}, "ok", failed=False)
    assert lines(MESSAGES, [*failed, *other], "failure") == ["last error: Edit /w/a.py: String to replace not found in file."]
    assert lines(MESSAGES, [*failed, *right], "failure") == []


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ("Error: seat 3A is taken", ["last error: book_seat: Error: seat 3A is taken"]),
        ("Found 3 matches", []),
        ("Failed logins: 0", []),
        ('{"flights": [], "error": ""}', []),
    ],
)
def test_an_unknown_tool_fails_only_by_a_plain_error(answer: str, failure: list[str]) -> None:
    """Its answer may begin like a refusal and be none; the same tool's next success puts an error right."""
    items = used(CHAT, "book_seat", {"seat": "3A"}, answer)
    assert lines(CHAT, items, "failure") == failure
    assert lines(CHAT, [*items, *used(CHAT, "book_seat", {"seat": "3B"}, "done")], "failure") == []


def test_a_run_without_a_target_covers_one_with_a_target() -> None:
    failed = ran(MESSAGES, "python -m pytest tests/test_a.py", "FAILED tests/test_a.py", failed=True)
    assert lines(MESSAGES, [*failed, *ran(MESSAGES, "pytest tests/test_b.py", "", failed=False)], "failure") != []
    assert lines(MESSAGES, [*failed, *ran(MESSAGES, ".venv/bin/pytest -q", "", failed=False)], "failure") == []


# Open calls.


def test_a_call_is_open_until_it_is_answered() -> None:
    """Several calls of one message have their own answers; what one says beside its calls is no part of them."""
    uses = [
        {"type": "text", "text": "Two things."},
        {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "make test"}},
        {"type": "tool_use", "id": "b", "name": "Edit", "input": {"file_path": "/w/a.py"}},
    ]
    opened = [said(MESSAGES, "Go."), {"role": "assistant", "content": uses}]
    assert lines(MESSAGES, opened, "open_calls") == ["open call: make test", "open call: Edit /w/a.py"]
    answered = [*opened, output(MESSAGES, "b", "ok")]
    assert lines(MESSAGES, answered, "open_calls") == ["open call: make test"]
    assert lines(MESSAGES, answered, "changed") == ["changed /w/a.py"]


def test_a_call_is_not_open_once_a_person_has_spoken() -> None:
    """Its turn was broken off. An answer that comes all the same still counts."""
    left = [call(RESPONSES, "c", "shell", {"command": "make test"}), said(RESPONSES, "Stop.")]
    assert lines(RESPONSES, left, "open_calls") == []
    assert lines(RESPONSES, [*left, output(RESPONSES, "c", FINE)], "commands") == ["ran `make test`: ok"]


# Todos.


@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        (
            "TodoWrite",
            {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, {"content": "c"}]},
            ["todo [in progress]: b", "todo [pending]: c", "todo [done]: 1 of the list"],
        ),
        ("update_plan", {"explanation": "x", "plan": [{"step": "a", "status": "pending"}]}, ["todo [pending]: a"]),
        ("todowrite", {"todos": [{"content": "a", "status": "cancelled", "id": "1"}]}, []),
        (
            "update_todo_list",
            {"todos": "- [x] a\n- [-] b\n- [ ] c"},
            ["todo [in progress]: b", "todo [pending]: c", "todo [done]: 1 of the list"],
        ),
        ("write_todos", {"todos": [{"description": "a", "status": "pending"}]}, ["todo [pending]: a"]),
        ("update_plan", {"explanation": "no list"}, []),
        ("my_todo_tool", {"todos": [{"content": "a"}]}, []),
    ],
)
def test_the_todo_list_is_the_newest_one(name: str, arguments: Json, found: list[str]) -> None:
    """As each client writes it."""
    older = used(CHAT, "update_plan", {"plan": []}, "Plan updated")
    assert lines(CHAT, [*older, *used(CHAT, name, arguments, "ok")], "todos") == found


def test_tasks_are_created_and_updated_one_by_one() -> None:
    """As Claude Code of today does; a list that was refused changes nothing."""
    items = [
        *used(MESSAGES, "TaskCreate", {"subject": "Read", "description": "d"}, "Task #1 created successfully: Read"),
        *used(MESSAGES, "TaskCreate", {"subject": "Write", "description": "d"}, "Task #2 created successfully: Write"),
        *used(MESSAGES, "TaskUpdate", {"taskId": "1", "status": "completed"}, "Updated task #1 status"),
        *used(MESSAGES, "TaskUpdate", {"taskId": "2", "status": "in_progress"}, "Updated task #2 status"),
        *used(MESSAGES, "TodoWrite", {"todos": [{"content": "x"}]}, "InputValidationError", failed=True),
    ]
    assert lines(MESSAGES, items, "todos") == ["todo [in progress]: Write", "todo [done]: 1 of the list"]


# Pictures, and one turn.


@pytest.mark.parametrize("samples", SAMPLES, ids=[samples.dialect.name for samples in SAMPLES])
def test_pictures_people_sent_are_named(samples: DialectSamples) -> None:
    (line,) = lines(samples.dialect, [samples.pictured("See the menu.")], "images")
    assert line.endswith("image: See the menu.")


def test_a_turn_is_told_in_a_few_lines() -> None:
    items = [
        said(MESSAGES, "Go."),
        *used(MESSAGES, "Edit", {"file_path": "/w/a.py"}, "ok"),
        *used(MESSAGES, "Edit", {"file_path": "/w/b.py"}, "ok"),
        *ran(MESSAGES, "cd /w/lib && rm old.py", "", failed=False),
        *ran(MESSAGES, "make test", "Exit code 1\nFAILED", failed=True),
    ]
    before = fold(Facts(), observed(MESSAGES, items)[:1])
    assert tell_work(before, fold(before, observed(MESSAGES, items))) == (
        "changed a.py, b.py, old.py (deleted)",
        "ran `make test`: failed, exit 1: FAILED",
    )


# What always holds.

IDS: Final = st.sampled_from(["1", "2", "3"])
PATHS: Final = st.sampled_from(["a.py", "src/a.py", "/w/src/a.py", "/w/b.md"])
COMMANDS: Final = st.sampled_from(
    [
        "make test",
        "cd /w && make test | tail",
        "make lint",
        "rm src/a.py",
        "ls",
        "echo x > b.md",
        "git stash",
        "sed -i s/a/b/ a.py",
    ]
)
ANSWERS: Final = st.sampled_from(
    [
        "ok",
        FINE,
        '{"output":"no","metadata":{"exit_code":1}}',
        "Error: no",
        "Process running with session ID 7",
        "Process exited with code 0",
        "Traceback (most recent call last):\nKeyError: 'a'",
        "Task #1 created",
        "\ud800 half",
    ]
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Dialect, list[Json]]:
    """Calls, answers and people in any order, sensible or not."""
    dialect = draw(st.sampled_from(ALL))
    calls = st.one_of(
        st.builds(lambda i, p: call(dialect, i, "Edit", {"file_path": p}), IDS, PATHS),
        st.builds(lambda i, c: call(dialect, i, "shell", {"command": c}), IDS, COMMANDS),
        st.builds(lambda i: call(dialect, i, "write_stdin", {"session_id": 7}), IDS),
        st.builds(lambda i, t: call(dialect, i, "TodoWrite", {"todos": [{"content": t}]}), IDS, PATHS),
        st.builds(lambda i: call(dialect, i, "TaskCreate", {"subject": "x"}), IDS),
        st.builds(
            lambda i, s: call(dialect, i, "TaskUpdate", {"taskId": "1", "status": s}),
            IDS,
            st.sampled_from(["completed", "deleted", "x"]),
        ),
        st.builds(lambda i: call(dialect, i, "book", {}), IDS),
    )
    answers = st.builds(lambda i, a, f: output(dialect, i, a, failed=f), IDS, ANSWERS, st.sampled_from([None, True, False]))
    people = st.builds(lambda text: said(dialect, text), st.sampled_from(["Go.", "<environment_context>x</environment_context>"]))
    pictured = st.just(DIALECTS[dialect.name].pictured("Look."))
    return dialect, draw(st.lists(st.one_of(calls, calls, answers, answers, people, pictured), max_size=24))


@settings(max_examples=50)
@given(history=histories(), cuts=st.lists(st.integers(0, 24), max_size=4))
def test_it_makes_no_difference_where_the_records_are_split(history: tuple[Dialect, list[Json]], cuts: list[int]) -> None:
    """Also where each part begins with records that were folded before, and where the facts were stored in between."""
    items = observed(*history)
    facts = Facts()
    for cut in [*sorted(cuts), len(items)]:
        facts = msgspec.json.decode(msgspec.json.encode(fold(facts, items[:cut])), type=Facts)
    assert facts == fold(Facts(), items)
    assert render_facts(facts) == render_facts(fold(Facts(), items))


@settings(max_examples=30)
@given(history=histories())
def test_every_line_points_to_a_record_and_is_one_line(history: tuple[Dialect, list[Json]]) -> None:
    found = render_facts(fold(Facts(), observed(*history)))
    parts = (found.changed, found.failure, found.open_calls, found.todos, found.images)
    ordinals = range(1, len(history[1]) + 1)
    assert all(line.source.ordinal in ordinals and "\n" not in line.text for part in parts for line in part)


ODD: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=4), PATHS, COMMANDS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["success", "exit_code", "text"]), inner)
    ),
    max_leaves=6,
)
NAMES: Final = [
    "command",
    "path",
    "file_path",
    "type",
    "input",
    "todos",
    "plan",
    "taskId",
    "status",
    "workdir",
    "merge",
    "source",
]
TOOLS: Final = [
    "Edit",
    "shell",
    "apply_patch",
    "str_replace_editor",
    "TodoWrite",
    "TaskUpdate",
    "move_file",
    "write_stdin",
    "todo",
]


@settings(max_examples=50)
@given(
    dialect=st.sampled_from(ALL),
    tool=st.sampled_from(TOOLS),
    arguments=st.one_of(ODD, st.dictionaries(st.sampled_from(NAMES), ODD)),
    answer=ODD,
)
def test_odd_arguments_and_answers_are_read_without_an_error(
    dialect: Dialect, tool: str, arguments: object, answer: object
) -> None:
    """Transcripts are hostile input: any JSON may stand where a client writes its own."""
    opened = call(dialect, "c", tool, arguments)
    closed = output(dialect, "c", "x")
    match dialect.name:
        case "messages":
            closed["content"][0]["content"] = answer
        case "responses":
            closed["output"] = answer
        case "gemini":
            closed["parts"][0]["functionResponse"]["response"] = answer
        case _:
            closed["content"] = json.dumps(answer)
    facts = fold(Facts(), observed(dialect, [opened, closed]))
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts) == facts
    assert not facts.open_calls


def test_every_part_is_bounded() -> None:
    """However long a session is and whatever it holds."""
    items: list[Json] = []
    for number in range(200):
        items += [
            *used(MESSAGES, "Write", {"file_path": f"/w/{number}.py"}, "ok"),
            *ran(MESSAGES, f"make target{number}", "x" * 5_000, failed=number % 2 == 0),
        ]
    items += [call(MESSAGES, f"{number}-{'x' * 500}", "Task", {"prompt": "y" * 5_000}) for number in range(100)]
    facts = fold(Facts(), observed(MESSAGES, items))
    assert (len(facts.changed), len(facts.commands), len(facts.open_calls)) == (CHANGED_KEPT, COMMANDS_KEPT, OPEN_KEPT)
    assert len(msgspec.json.encode(facts)) < 60_000


@pytest.mark.parametrize(
    "command",
    [
        "cat <<A\n" * 20_000,
        "{" * 200_000,
        "'" * 199_999,
        '"\\' * 100_000,
        "a;" * 100_000,
        "echo " + "x" * 300_000,
        "<<<" * 60_000,
        "> " * 90_000,
    ],
)
def test_a_hostile_line_changes_nothing_in_linear_time(command: str) -> None:
    assert read_line(command).edits == ()


@pytest.mark.parametrize("answer", ["\n" * 500_000, "Error" * 100_000, "exit code " * 50_000, "[" * 100_000, '{"a":' * 50_000])
def test_a_hostile_answer_takes_linear_time(answer: str) -> None:
    assert len(lines(CHAT, ran(CHAT, "make test", answer), "commands")) == 1


def test_gemini_s_calls_without_ids_give_the_same_facts() -> None:
    """Its calls and responses are paired by name and order; an `error` field says that a call failed."""

    def did(*calls: tuple[str, object, str, bool]) -> list[Json]:
        opened = [{"functionCall": {"name": name, "args": arguments}} for name, arguments, _, _ in calls]
        closed = [
            {"functionResponse": {"name": name, "response": {"error" if failed else "output": text}}}
            for name, _, text, failed in calls
        ]
        return [{"role": "model", "parts": opened}, {"role": "user", "parts": closed}]

    history = did(
        ("shell", {"command": "make test"}, "two tests failed", True),
        ("shell", {"command": "make lint"}, "fine", False),
        ("write_file", {"file_path": "src/a.py", "content": "x"}, "written", False),
    )
    assert lines(GEMINI, history, "changed") == ["changed src/a.py"]
    assert lines(GEMINI, history, "failure") == ["last error: `make test`: two tests failed"]
    told = lines(GEMINI, history, "commands")
    assert (told[0].startswith("ran `make test`: failed"), told[1]) == (True, "ran `make lint`")
    assert lines(GEMINI, [*history, *did(("shell", {"command": "make test"}, "Exit code: 0", False))], "failure") == []
