"""`threadkeep setup`: points installed clients at the gateway, or gives them hooks, and takes it back."""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.adapters.client_settings.clients import (
    CLIENTS,
    Client,
    Plan,
    Surroundings,
    Way,
    find_own_program,
    has_chatgpt_login,
    plan_hooks,
)
from threadkeep.adapters.client_settings.settings_file import Change, hide_secrets
from threadkeep.adapters.client_settings.text_edits import Add
from threadkeep.cli.output import ask_user, open_screen, print_json
from threadkeep.cli.safe_text import clean
from threadkeep.cli.settings import read_config
from threadkeep.client import Config
from threadkeep.errors import BadInput, InvalidArgument
from threadkeep.launch.processes import is_answering

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Part

NOTES = "~/.local/share/threadkeep/client-settings"
ALIASES = {"claude-code": "claude", "claudecode": "claude", "qwen-code": "qwen"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One planned change of one client's settings."""

    client: Client
    way: Way
    plan: Plan
    change: Change

    @property
    def name(self) -> str:
        return f"{self.client.title}, {self.way}"


def run(args: Namespace) -> int:
    """Show what is set up, or plan a change, show it, ask, and make it."""
    config = read_config(args, with_project=False)
    around = _look_around(args, config)
    if args.client is None and not args.undo:
        return _list_clients(args, around)
    clients = list(CLIENTS.values()) if args.client is None else [_find_client(args.client)]
    tasks = [task for client in clients for task in _plan(args, client, around)]
    if not args.json:
        _print_tasks(args, tasks, around, config)
    changes = [task for task in tasks if task.change.diff]
    number = "this change" if len(changes) == 1 else f"these {len(changes)} changes"
    is_agreed = bool(changes) and (args.yes or (not args.json and ask_user(f"Make {number}?")))
    for task in tasks:
        # An undo of something that is gone already changes nothing; it only drops the note.
        is_gone = args.undo and not task.change.diff and not task.change.left
        if is_gone or (is_agreed and task.change.diff):
            task.plan.file.make(task.change)
    if args.json:
        _print_json(args, tasks, around, config, is_written=is_agreed)
    elif changes:
        _print_result(args, is_written=is_agreed)
    return 0


def _look_around(args: Namespace, config: Config) -> Surroundings:
    host = "127.0.0.1" if config.host in ("0.0.0.0", "::", "localhost") else config.host
    default = f"http://{f'[{host}]' if ':' in host else host}:{config.port}"
    url = (args.url or default).rstrip("/").removesuffix("/v1")
    if not url.startswith(("http://", "https://")):
        raise InvalidArgument("url", f"--url {url!r} is not an address; write http://127.0.0.1:4621")
    return Surroundings(
        environ=os.environ,
        home=Path.home(),
        project=Path.cwd(),
        notes=Path(NOTES).expanduser(),
        url=url,
        anthropic_upstream=config.anthropic_upstream,
    )


def _find_client(name: str) -> Client:
    known = ALIASES.get(name.lower(), name.lower())
    if known in CLIENTS:
        return CLIENTS[known]
    close = get_close_matches(known, [*CLIENTS, *ALIASES], n=1)
    hint = f"did you mean {ALIASES.get(close[0], close[0])}? " if close else ""
    raise InvalidArgument("client", f"setup does not know a client {name!r}; {hint}it knows {', '.join(CLIENTS)}")


def _plan(args: Namespace, client: Client, around: Surroundings) -> list[_Task]:
    asked = _read_ways(args)
    if args.undo:
        tasks: list[_Task] = []
        for way in asked or client.ways:
            tasks += _plan_undo(args, client, way, around, earlier=tasks)
        return tasks
    if len(asked) > 1:
        raise InvalidArgument("way", "choose one of --gateway and --hooks")
    default: Way = "hooks" if client.name == "codex" and has_chatgpt_login(around) else "gateway"
    way = asked[0] if asked else default
    plan = _plan_way(args, client, way, around)
    if plan.missing:
        raise InvalidArgument("client", plan.missing)
    return [_Task(client=client, way=way, plan=plan, change=plan.file.plan(plan.edits))]


def _plan_undo(args: Namespace, client: Client, way: Way, around: Surroundings, *, earlier: Sequence[_Task]) -> Iterator[_Task]:
    """Yield the change that takes back one way; none where nothing of ours is there and nobody asked about it."""
    try:
        plan = _plan_way(args, client, way, around)
        first = next((task.change for task in earlier if task.change.path == plan.file.path), None)
        change = plan.file.plan_undo(unnoted=[edit for edit in plan.edits if isinstance(edit, Add)], after=first)
    except BadInput:
        # `setup --undo` goes over every client; one that was never set up must not stop it.
        if args.client is None:
            return
        raise
    if change.diff or change.left or plan.file.is_noted or _read_ways(args):
        yield _Task(client=client, way=way, plan=plan, change=change)


def _plan_way(args: Namespace, client: Client, way: Way, around: Surroundings) -> Plan:
    if way == "gateway":
        if args.scope == "project":
            raise InvalidArgument("scope", "--scope project goes with --hooks; the gateway is set in your own settings")
        return client.gateway(around)
    if client.hooks is None:
        raise InvalidArgument("way", f"{client.title} has no hooks for this; use `threadkeep setup {client.name} --gateway`")
    return plan_hooks(client, around, program=find_own_program(), store=_resolve_store(args), scope=args.scope)


def _resolve_store(args: Namespace) -> str | None:
    """Return the store as a hook is to name it: a path must hold wherever the client runs.

    Raises:
        InvalidArgument: The address has a password in it, which must not stand in settings of another program.
    """
    if args.store is None:
        return None
    if "://" not in args.store:
        return str(Path(args.store).expanduser().absolute())
    user, at, _ = args.store.partition("://")[2].rpartition("@")
    if at and ":" in user:
        text = "this address has a password in it, which the client's settings would show; put it into THREADKEEP_STORE"
        raise InvalidArgument("store", text)
    return str(args.store)


def _read_ways(args: Namespace) -> tuple[Way, ...]:
    return tuple(dict.fromkeys(args.way or ()))


def _print_tasks(args: Namespace, tasks: Sequence[_Task], around: Surroundings, config: Config) -> None:
    """Print each change, what stays as it is, and what the user should know before agreeing."""
    screen = open_screen()
    if args.undo and not tasks:
        screen.write("Nothing to undo: threadkeep has written nothing here.")
    for task in tasks:
        if task.change.diff:
            # Not through the screen: a wrapped line is no line of a diff.
            print(clean(task.change.diff), end="", flush=True)
        elif not task.change.left:
            state = "nothing of threadkeep here" if args.undo else "set up already"
            screen.write(f"{task.name}: ", (state, "green"), f" ({task.plan.file.path})")
        for left in task.change.left:
            screen.write(("left alone: ", "yellow"), left)
        for remark in [] if args.undo else _list_remarks(task, around, config):
            screen.write(("note: ", "yellow"), remark)


def _list_remarks(task: _Task, around: Surroundings, config: Config) -> list[str]:
    """Return what the user should know about a change."""
    remarks = list(task.plan.remarks)
    if shutil.which(task.client.command) is None:
        remarks.append(f"{task.client.title} ({task.client.command}) was not found on PATH.")
    if task.way == "hooks":
        return remarks
    flags = ", ".join(f"--{provider}-upstream" for provider in config.upstreams)
    asked = f"The gateway asks {', '.join(config.upstreams.values())}; for another provider give it one of {flags}."
    remarks += [f"This replaces {hide_secrets(old)}. {asked}" for old in task.change.replaced]
    if config.keys_file and "/k/" not in around.url:
        remarks.append("This gateway asks for keys: run setup with --url http://HOST:PORT/k/KEY.")
    if not is_answering(around.url):
        remarks.append(
            f"No gateway answers at {hide_secrets(around.url)}. Start it with `threadkeep service install`, or with "
            f"`threadkeep serve`; without it {task.client.title} reaches no model."
        )
    return remarks


def _print_result(args: Namespace, *, is_written: bool) -> None:
    screen = open_screen()
    if is_written:
        screen.write(("Done.", "green"), "" if args.undo else f" To take it back: threadkeep setup {args.client} --undo")
        return
    words = ["threadkeep setup", *([args.client] if args.client else []), *(f"--{way}" for way in _read_ways(args))]
    words += [*(["--undo"] if args.undo else []), *([] if args.scope == "user" else ["--scope", args.scope])]
    words += ["--url", args.url] if args.url else []
    screen.write(("Nothing was written.", "yellow"), " To do it: ", (f"{' '.join(words)} --yes", "bold"))


def _print_json(args: Namespace, tasks: Sequence[_Task], around: Surroundings, config: Config, *, is_written: bool) -> None:
    changes = [
        {
            "client": task.client.name,
            "way": task.way,
            "file": str(task.plan.file.path),
            "diff": task.change.diff,
            "written": is_written and bool(task.change.diff),
            "left": list(task.change.left),
            "remarks": [] if args.undo else _list_remarks(task, around, config),
        }
        for task in tasks
    ]
    print_json({"undo": args.undo, "gateway": hide_secrets(around.url), "changes": changes})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    """One client in the list, with the keys of `--json`."""

    client: str
    title: str
    installed: bool
    has_settings: bool
    ways: tuple[Way, ...]
    set_up: list[Way]
    problem: str | None
    next: str


def _list_clients(args: Namespace, around: Surroundings) -> int:
    """Print which clients are there, what is set up, and what to type."""
    if _read_ways(args) or args.scope == "project":
        raise InvalidArgument("client", "name a client: threadkeep setup CLIENT --gateway, or --hooks")
    clients = [_read_status(args, client, around) for client in CLIENTS.values()]
    url, is_running = hide_secrets(around.url), is_answering(around.url)
    if args.json:
        print_json({"gateway": {"url": url, "running": is_running}, "clients": clients})
        return 0
    screen = open_screen()
    rows: list[list[Part]] = [
        [
            each.client,
            ("yes", "green") if each.installed else ("settings only", "yellow") if each.has_settings else ("no", "dim"),
            ("unreadable", "red") if each.problem else (", ".join(each.set_up) or "-", "green"),
            each.next,
        ]
        for each in clients
    ]
    screen.write_table(["client", "found", "set up", "what to type"], rows)
    for each in clients:
        if each.problem:
            screen.write(("unreadable: ", "red"), each.problem)
    screen.skip_line()
    if is_running:
        screen.write(("The gateway answers", "green"), f" at {url}.")
    else:
        screen.write(("No gateway answers", "yellow"), f" at {url}: threadkeep service install, or threadkeep serve")
    return 0


def _read_status(args: Namespace, client: Client, around: Surroundings) -> _Status:
    set_up: list[Way] = []
    problem = None
    for way in client.ways:
        try:
            plan = _plan_way(args, client, way, around)
            if not plan.missing and plan.file.holds(plan.edits):
                set_up.append(way)
        except BadInput as error:
            problem = str(error)
    installed, has_settings = shutil.which(client.command) is not None, around.find_folder(client.name).exists()
    flag = " --undo" if set_up else " [--hooks]" if len(client.ways) > 1 else ""
    return _Status(
        client=client.name,
        title=client.title,
        installed=installed,
        has_settings=has_settings,
        ways=client.ways,
        set_up=set_up,
        problem=problem,
        next=f"threadkeep setup {client.name}{flag}" if installed or has_settings or set_up else "",
    )
