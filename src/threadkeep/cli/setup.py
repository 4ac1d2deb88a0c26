"""`threadkeep setup`: points installed clients at the gateway, or gives them hooks, and takes it back."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.adapters.client_settings.clients import CLIENTS, Client, Plan, Surroundings, Way, has_chatgpt_login, plan_hooks
from threadkeep.adapters.client_settings.settings_file import Add, Change, hide_secrets
from threadkeep.cli.cleaning import clean
from threadkeep.cli.hook_places import own_program
from threadkeep.cli.opening import own_settings_of
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.probe import answers
from threadkeep.client import Config, build_config
from threadkeep.errors import BadInput

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part

NOTES = "~/.local/share/threadkeep/client-settings"
ALIASES = {"claude-code": "claude", "claudecode": "claude", "qwen-code": "qwen"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One planned change of one client's settings."""

    client: Client
    way: Way
    plan: Plan
    change: Change


def run(args: Namespace) -> int:
    """Show what is set up, or plan a change, show it, ask, and make it."""
    config = build_config(own_settings_of(args))
    around = _surroundings(args, config)
    if args.client is None and not args.undo:
        return _list_clients(args, around)
    clients = list(CLIENTS.values()) if args.client is None else [_client_named(args.client)]
    tasks = [task for client in clients for task in _plan(args, client, around)]
    if not args.json:
        _show(args, tasks, around, config)
    wanted = [task for task in tasks if task.change.diff]
    agreed = bool(wanted) and (args.yes or (not args.json and _ask(len(wanted))))
    for task in tasks:
        if (agreed and task.change.diff) or (args.undo and not task.change.diff and not task.change.left):
            # An undo that finds nothing of ours any more makes no change; it only drops the note.
            task.plan.file.make(task.change)
    if args.json:
        _print_json(args, tasks, around, config, written=agreed)
    elif wanted:
        _tell_result(args, written=agreed)
    return 0


def _surroundings(args: Namespace, config: Config) -> Surroundings:
    host = "127.0.0.1" if config.host in ("0.0.0.0", "::", "localhost") else config.host
    default = f"http://{f'[{host}]' if ':' in host else host}:{config.port}"
    url = (args.url or default).rstrip("/").removesuffix("/v1")
    if not url.startswith(("http://", "https://")):
        raise BadInput(f"--url {url!r} is not an address; write http://127.0.0.1:4621")
    return Surroundings(
        environ=os.environ,
        home=Path.home(),
        project=Path.cwd(),
        notes=Path(NOTES).expanduser(),
        url=url,
        anthropic_upstream=config.anthropic_upstream,
    )


def _client_named(name: str) -> Client:
    known = ALIASES.get(name.lower(), name.lower())
    if known in CLIENTS:
        return CLIENTS[known]
    close = get_close_matches(known, [*CLIENTS, *ALIASES], n=1)
    hint = f"did you mean {ALIASES.get(close[0], close[0])}? " if close else ""
    raise BadInput(f"setup does not know a client {name!r}; {hint}it knows {', '.join(CLIENTS)}")


def _plan(args: Namespace, client: Client, around: Surroundings) -> list[_Task]:
    if args.undo:
        tasks: list[_Task] = []
        for way in _ways(args) or client.ways:
            tasks += _plan_undo(args, client, way, around, earlier=tasks)
        return tasks
    asked = _ways(args)
    if len(asked) > 1:
        raise BadInput("choose one of --gateway and --hooks")
    way = asked[0] if asked else _default_way(client, around)
    plan = _plan_for(args, client, way, around)
    if plan.missing:
        raise BadInput(plan.missing)
    return [_Task(client=client, way=way, plan=plan, change=plan.file.plan(plan.edits))]


def _plan_undo(args: Namespace, client: Client, way: Way, around: Surroundings, *, earlier: Sequence[_Task]) -> Iterator[_Task]:
    """Yield the change that takes back one way; none where nothing of ours is there and nobody asked about it."""
    try:
        plan = _plan_for(args, client, way, around)
        first = next((task.change for task in earlier if task.change.path == plan.file.path), None)
        change = plan.file.plan_undo(unnoted=[edit for edit in plan.edits if isinstance(edit, Add)], after=first)
    except BadInput:
        # `setup --undo` goes over every client; one that was never set up must not stop it.
        if args.client is None:
            return
        raise
    if change.diff or change.left or plan.file.is_noted or _ways(args):
        yield _Task(client=client, way=way, plan=plan, change=change)


def _plan_for(args: Namespace, client: Client, way: Way, around: Surroundings) -> Plan:
    if way == "gateway":
        if args.scope == "project":
            raise BadInput("--scope project goes with --hooks; the gateway is set in your own settings")
        return client.gateway(around)
    if client.hooks is None:
        raise BadInput(f"{client.title} has no hooks for this; use `threadkeep setup {client.name} --gateway`")
    return plan_hooks(client, around, program=own_program(), store=_store_named(args), scope=args.scope)


def _ways(args: Namespace) -> tuple[Way, ...]:
    """Return what was chosen on the command line."""
    return tuple(dict.fromkeys(args.way or ()))


def _default_way(client: Client, around: Surroundings) -> Way:
    return "hooks" if client.name == "codex" and has_chatgpt_login(around) else "gateway"


def _ask(count: int) -> bool:
    """Ask at a terminal; without one the answer is no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        answer = input(f"Make {'this change' if count == 1 else f'these {count} changes'}? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _show(args: Namespace, tasks: Sequence[_Task], around: Surroundings, config: Config) -> None:
    """Print each change, what is left alone, and what the user should know before agreeing."""
    screen = open_screen()
    if args.undo and not tasks:
        screen.line("Nothing to undo: threadkeep has written nothing here.")
    for task in tasks:
        if task.change.diff:
            # Printed as it is: a folded line is no line of a diff.
            print(clean(task.change.diff), end="", flush=True)
        elif not task.change.left:
            state = "nothing of threadkeep here" if args.undo else "set up already"
            screen.line(f"{task.client.title}, {task.way}: ", (state, "green"), f" ({task.plan.file.path})")
        for left in task.change.left:
            screen.line(("left alone: ", "yellow"), left)
        for remark in [] if args.undo else _remarks(task, around, config):
            screen.line(("note: ", "yellow"), remark)


def _tell_result(args: Namespace, *, written: bool) -> None:
    screen = open_screen()
    if not written:
        again = " ".join(["threadkeep setup", *([args.client] if args.client else []), *_flags(args)])
        screen.line(("Nothing was written.", "yellow"), " To do it: ", (f"{again} --yes", "bold"))
    else:
        screen.line(("Done.", "green"), "" if args.undo else f" To take it back: threadkeep setup {args.client} --undo")


def _flags(args: Namespace) -> list[str]:
    chosen = [*(f"--{way}" for way in _ways(args)), *(["--undo"] if args.undo else [])]
    scope = [] if args.scope == "user" else ["--scope", args.scope]
    return [*chosen, *scope, *(["--url", args.url] if args.url else [])]


def _remarks(task: _Task, around: Surroundings, config: Config) -> list[str]:
    """Return what the user should know after, or before, a change."""
    remarks = list(task.plan.remarks)
    if shutil.which(task.client.command) is None:
        remarks.append(f"{task.client.title} ({task.client.command}) was not found on PATH.")
    if task.way == "hooks":
        return remarks
    for name, old in task.change.replaced:
        remarks.append(
            f"{name} was {hide_secrets(old.strip())} before. The gateway asks {config.openai_upstream} and "
            f"{config.anthropic_upstream}; other providers need --openai-upstream or --anthropic-upstream."
        )
    if config.keys_file and "/k/" not in around.url:
        remarks.append("This gateway asks for keys: run setup with --url http://HOST:PORT/k/KEY.")
    if not answers(around.url):
        remarks.append(
            f"No gateway answers at {hide_secrets(around.url)}. Start it with `threadkeep service install`, or with "
            f"`threadkeep serve`; without it {task.client.title} reaches no model."
        )
    return remarks


def _print_json(args: Namespace, tasks: Sequence[_Task], around: Surroundings, config: Config, *, written: bool) -> None:
    changes = [
        {
            "client": task.client.name,
            "way": task.way,
            "file": str(task.plan.file.path),
            "diff": task.change.diff,
            "written": written and bool(task.change.diff),
            "left": list(task.change.left),
            "remarks": [] if args.undo else _remarks(task, around, config),
        }
        for task in tasks
    ]
    print_json({"undo": args.undo, "gateway": hide_secrets(around.url), "changes": changes})


def _list_clients(args: Namespace, around: Surroundings) -> int:
    """Print which clients are there, what is set up, and what to type."""
    if _ways(args) or args.scope == "project":
        raise BadInput("name a client: threadkeep setup CLIENT --gateway, or --hooks")
    rows = [_row(args, client, around) for client in CLIENTS.values()]
    running = answers(around.url)
    if args.json:
        print_json({"gateway": {"url": hide_secrets(around.url), "running": running}, "clients": rows})
        return 0
    screen = open_screen()
    table: list[list[Part]] = [
        [
            str(row["client"]),
            ("yes", "green") if row["installed"] else ("settings only", "yellow") if row["has_settings"] else ("no", "dim"),
            ("unreadable", "red") if row["problem"] else (", ".join(_words(row["set_up"])) or "-", "green"),
            str(row["next"]),
        ]
        for row in rows
    ]
    screen.table(["client", "found", "set up", "what to type"], table)
    for row in rows:
        if row["problem"]:
            screen.line(("unreadable: ", "red"), str(row["problem"]))
    screen.gap()
    if running:
        screen.line(("The gateway answers", "green"), f" at {hide_secrets(around.url)}.")
    else:
        screen.line(
            ("No gateway answers", "yellow"), f" at {hide_secrets(around.url)}: threadkeep service install, or threadkeep serve"
        )
    return 0


def _row(args: Namespace, client: Client, around: Surroundings) -> dict[str, object]:
    set_up: list[str] = []
    problem = None
    for way in client.ways:
        try:
            plan = _plan_for(args, client, way, around)
            if not plan.missing and plan.file.holds(plan.edits):
                set_up.append(way)
        except BadInput as error:
            problem = str(error)
    installed, has_settings = shutil.which(client.command) is not None, client.folder(around).exists()
    undo = " --undo" if set_up else ""
    hooks = " [--hooks]" if len(client.ways) > 1 and not set_up else ""
    return {
        "client": client.name,
        "title": client.title,
        "installed": installed,
        "has_settings": has_settings,
        "ways": list(client.ways),
        "set_up": set_up,
        "problem": problem,
        "next": f"threadkeep setup {client.name}{undo}{hooks}" if installed or has_settings or set_up else "",
    }


def _words(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _store_named(args: Namespace) -> str | None:
    """Return the store as a hook is to name it: a path must hold wherever the client stands.

    Raises:
        BadInput: The address has a password in it; settings of another program are no place for it.
    """
    if args.store is None:
        return None
    if "://" not in args.store:
        return str(Path(args.store).expanduser().absolute())
    user, at, _ = args.store.partition("://")[2].rpartition("@")
    if at and ":" in user:
        raise BadInput("this address has a password in it, which the client's settings would show; put it into THREADKEEP_STORE")
    return str(args.store)
