"""How four kinds of clients call their tools. Frozen: see the package's docstring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.story.session import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """The names a client gives its tools and their arguments."""

    run: tuple[str, str]
    read: tuple[str, str]
    search: tuple[str, str]
    edit: tuple[str, str, str, str]
    todo: tuple[str, str, str, str]
    says_exit: str

    def ran(self, command: str, output: str, *, code: int = 0) -> Step:
        """Return a command and what it printed."""
        return Step(tool=self.run[0], arguments={self.run[1]: command}, output=self.says_exit.format(code=code, out=output))

    def looked(self, path: str, text: str) -> Step:
        """Return a file that was read."""
        return Step(tool=self.read[0], arguments={self.read[1]: path}, output=text)

    def searched(self, pattern: str, found: str) -> Step:
        """Return a search and what it found."""
        return Step(tool=self.search[0], arguments={self.search[1]: pattern}, output=found)

    def edited(self, path: str, *, old: str, new: str) -> Step:
        """Return an edit of a file."""
        name, where, before, after = self.edit
        return Step(tool=name, arguments={where: path, before: old, after: new}, output=f"{path} has been updated.")

    def planned(self, steps: Sequence[tuple[str, str]]) -> Step:
        """Return a list of what to do, each with its status."""
        name, holding, text, status = self.todo
        return Step(tool=name, arguments={holding: [{text: what, status: how} for what, how in steps]}, output="ok")


TOOLSETS: Mapping[str, Toolset] = {
    "capital": Toolset(
        run=("Bash", "command"),
        read=("Read", "file_path"),
        search=("Grep", "pattern"),
        edit=("Edit", "file_path", "old_string", "new_string"),
        todo=("TodoWrite", "todos", "content", "status"),
        says_exit="{out}",
    ),
    "lower": Toolset(
        run=("bash", "command"),
        read=("read", "filePath"),
        search=("grep", "pattern"),
        edit=("edit", "filePath", "oldString", "newString"),
        todo=("todowrite", "todos", "content", "status"),
        says_exit="{out}\n(exit {code})",
    ),
    "shell": Toolset(
        run=("run_shell_command", "command"),
        read=("read_file", "absolute_path"),
        search=("search_file_content", "pattern"),
        edit=("replace", "file_path", "old_string", "new_string"),
        todo=("write_todos", "todos", "description", "status"),
        says_exit="Output: {out}\nExit Code: {code}",
    ),
    "plain": Toolset(
        run=("bash", "command"),
        read=("read", "path"),
        search=("grep", "pattern"),
        edit=("edit", "path", "oldText", "newText"),
        todo=("todo", "items", "content", "status"),
        says_exit="{out}\n\nCommand exited with code {code}",
    ),
}
