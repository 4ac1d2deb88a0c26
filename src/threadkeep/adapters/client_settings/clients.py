"""The clients that `threadkeep setup` knows: where their settings are, and what setup writes into them."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from threadkeep.adapters.client_settings.settings_file import SettingsFile
from threadkeep.adapters.client_settings.text_edits import Add, Form, Put
from threadkeep.transfer.import_formats import Format

Way = Literal["gateway", "hooks"]

# For each client: a variable that names a folder, the default below the home folder, and the settings' place in it.
FOLDERS: Mapping[str, tuple[str, str, str]] = {
    "claude": ("CLAUDE_CONFIG_DIR", ".claude", ""),
    "codex": ("CODEX_HOME", ".codex", ""),
    "opencode": ("XDG_CONFIG_HOME", ".config", "opencode"),
    "pi": ("PI_CODING_AGENT_DIR", ".pi/agent", ""),
    "qwen": ("", ".qwen", ""),
    "cline": ("", ".cline", ""),
    "aider": ("", ".aider.conf.yml", ""),
}

# A client shows its model only part of a hook's output: Codex 2,500 tokens of four bytes, Claude Code 10,000 characters; it
# writes the rest to a file. A longer state is sent in parts, each by a handler of its own.
PART_BYTES = 9_000
PARTS = 4
# The client kills the hook after this time; the hook ends itself long before.
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The user's environment, home, working folder, the folder for undo notes, and the gateway's address."""

    environ: Mapping[str, str]
    home: Path
    project: Path
    notes: Path
    url: str
    anthropic_upstream: str = ""

    def find_folder(self, client: str) -> Path:
        """Return where a client keeps its settings: the folder a variable names, else one below the home folder."""
        variable, default, below = FOLDERS[client]
        named = self.environ.get(variable)
        return (Path(named) if named else self.home / default) / below

    def file(self, path: Path, form: Form, *, purpose: str = "gateway") -> SettingsFile:
        return SettingsFile(path=path, form=form, purpose=purpose, notes=self.notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The edits of one settings file.

    Attributes:
        remarks: What else the user should know.
        missing: Why nothing can be written yet, and what to do about it.
    """

    file: SettingsFile
    edits: Sequence[Put | Add]
    remarks: tuple[str, ...] = ()
    missing: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookClient:
    """The hooks of a client.

    Attributes:
        name: The client's name in `threadkeep hook run NAME`.
        form: The format of its transcripts.
        file: The settings file, relative to the client's folder.
        project_file: The settings file, relative to a project's folder.
    """

    name: str
    form: Format
    file: str
    project_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client that setup knows.

    Attributes:
        name: What people type after `threadkeep setup`.
        command: The program that starts it.
        gateway: Plans the edits that point it at the gateway.
        hooks: Its hooks, if setup can write them.
    """

    name: str
    title: str
    command: str
    gateway: Callable[[Surroundings], Plan]
    hooks: HookClient | None = None

    @property
    def ways(self) -> tuple[Way, ...]:
        return ("gateway",) if self.hooks is None else ("gateway", "hooks")


def find_own_program() -> tuple[str, ...]:
    """Return the words that start this very threadkeep from anywhere: a client has a PATH of its own."""
    script = Path(sys.executable).parent / "threadkeep"
    if script.exists():
        return (str(script),)
    found = shutil.which("threadkeep")
    return (found,) if found else (sys.executable, "-m", "threadkeep.cli")


def plan_hooks(client: Client, around: Surroundings, *, program: Sequence[str], store: str | None, scope: str) -> Plan:
    """Plan the edits that make a client call `program` when it compacts; `scope` is `user` or `project`."""
    hooks = client.hooks
    assert hooks is not None
    path = around.project / hooks.project_file if scope == "project" else around.find_folder(client.name) / hooks.file
    edits = [
        Add(path=("hooks", event), value=group, replaces=lambda element: _is_our_group(element, hooks.name))
        for event, group in _hook_groups(program, hooks.name, store=store).items()
    ]
    remarks = ("Codex asks in its terminal whether you trust these hooks, and runs them only then.",)
    file = around.file(path, "json", purpose="hooks")
    return Plan(file=file, edits=edits, remarks=remarks if client.name == "codex" else ())


def _hook_groups(program: Sequence[str], name: str, *, store: str | None) -> dict[str, dict[str, object]]:
    """Return one group of handlers for each event.

    A handler never fails: Claude Code takes exit code 2, which a misspelt argument causes, as an order not to compact.
    """
    line = shlex.join((*program, "hook", "run", name, *(("--store", store) if store else ())))
    parts = [_handler(f"{line} --part {part}") for part in range(1, PARTS + 1)]
    return {"PreCompact": {"hooks": [_handler(line)]}, "SessionStart": {"matcher": "compact", "hooks": parts}}


def _handler(line: str) -> dict[str, object]:
    return {"type": "command", "command": f"{line} || exit 0", "timeout": TIMEOUT_S}


def _is_our_group(group: object, name: str) -> bool:
    """Whether threadkeep wrote a group of handlers, on any machine and in any release."""
    handlers = group.get("hooks") if isinstance(group, dict) else None
    commands = [each.get("command") for each in handlers if isinstance(each, dict)] if isinstance(handlers, list) else []
    return bool(commands) and all(
        isinstance(line, str) and "threadkeep" in line and f" hook run {name}" in line for line in commands
    )


def has_chatgpt_login(around: Surroundings) -> bool:
    """Whether Codex uses a ChatGPT login without an API key, which does not work through a base URL."""
    login = _read_codex_login(around)
    return bool(login.get("tokens")) and not login.get("OPENAI_API_KEY") and not around.environ.get("OPENAI_API_KEY")


def _plan_claude(around: Surroundings) -> Plan:
    edits = [Put(path=("env", "ANTHROPIC_BASE_URL"), value=around.url)]
    if around.anthropic_upstream.startswith("https://api.anthropic.com"):
        # With another base URL Claude Code hides the 1M window unless it is told that Anthropic answers.
        edits.append(Put(path=("env", "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"), value="1"))
    remark = (
        "Claude Code still compacts by itself. To let threadkeep do it, add these lines to "
        '~/.config/threadkeep/threadkeep.toml: [auto_compact_for] and, below it, claude-code = "on".'
    )
    file = around.file(around.find_folder("claude") / "settings.json", "json")
    return Plan(file=file, edits=edits, remarks=(remark,))


def _plan_codex(around: Surroundings) -> Plan:
    # With a login of its own, Codex keeps the key in auth.json and does not read a variable.
    has_key = bool(_read_codex_login(around).get("OPENAI_API_KEY"))
    key: dict[str, object] = {"requires_openai_auth": True} if has_key else {"env_key": "OPENAI_API_KEY"}
    provider = {
        "name": "threadkeep",
        "base_url": f"{around.url}/v1",
        **key,
        "wire_api": "responses",
        "supports_websockets": True,
    }
    edits = [
        Put(path=("model_provider",), value="threadkeep"),
        Put(path=("model_providers", "threadkeep"), value=provider),
    ]
    remarks = []
    if has_chatgpt_login(around):
        remarks.append(
            "Codex is logged in with ChatGPT, and that login does not work through a base URL. Set OPENAI_API_KEY, or use "
            "`threadkeep setup codex --hooks`, which needs no gateway."
        )
    elif not has_key and not around.environ.get("OPENAI_API_KEY"):
        remarks.append("Codex will read its key from OPENAI_API_KEY, which is not set here.")
    return Plan(file=around.file(around.find_folder("codex") / "config.toml", "toml"), edits=edits, remarks=tuple(remarks))


def _read_codex_login(around: Surroundings) -> Mapping[str, object]:
    try:
        login = json.loads((around.find_folder("codex") / "auth.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return login if isinstance(login, dict) else {}


def _plan_opencode(around: Surroundings) -> Plan:
    folder = around.find_folder("opencode")
    # opencode reads all three; the first in this list wins.
    names = ("opencode.jsonc", "opencode.json", "config.json")
    files = [around.file(folder / name, "jsonc") for name in names]
    # Keep to a file that setup wrote to before, so that an undo finds it.
    noted = next((file for file in files if file.is_noted), None)
    file = noted or next((file for file in files if file.path.exists()), files[1])
    edits = [
        Put(path=("provider", provider, "options", "baseURL"), value=f"{around.url}/v1") for provider in ("openai", "anthropic")
    ]
    return Plan(file=file, edits=edits)


def _plan_pi(around: Surroundings) -> Plan:
    # Only the address: pi keeps the models and the credentials of its own providers.
    edits = [
        Put(path=("providers", "openai", "baseUrl"), value=f"{around.url}/v1"),
        Put(path=("providers", "anthropic", "baseUrl"), value=around.url),
    ]
    return Plan(file=around.file(around.find_folder("pi") / "models.json", "jsonc"), edits=edits)


def _plan_qwen(around: Surroundings) -> Plan:
    file = around.file(around.find_folder("qwen") / "settings.json", "jsonc")
    settings = file.read()
    assert isinstance(settings, dict)
    remarks = []
    if settings.get("modelProviders"):
        remarks.append("Models below modelProviders have their own addresses; set their baseUrl yourself if needed.")
    security = settings.get("security")
    auth = security.get("auth") if isinstance(security, dict) else None
    if not isinstance(auth, dict) or auth.get("selectedType") != "openai":
        remarks.append("qwen uses this address only with an API key of an OpenAI-compatible provider; choose one with /auth.")
    edits = [Put(path=("security", "auth", "baseUrl"), value=f"{around.url}/v1")]
    return Plan(file=file, edits=edits, remarks=tuple(remarks))


def _plan_cline(around: Surroundings) -> Plan:
    file = around.file(around.find_folder("cline") / "data" / "settings" / "providers.json", "json")
    settings = file.read()
    providers = settings.get("providers")
    names = [name for name in ("anthropic", "openai-native") if isinstance(providers, dict) and name in providers]
    missing = (
        f"{file.path} has no provider that a gateway can serve; "
        "run `cline auth -p anthropic -k KEY -m MODEL` (or -p openai-native) first"
    )
    edits = [Put(path=("providers", name, "settings", "baseUrl"), value=f"{around.url}/v1") for name in names]
    return Plan(file=file, edits=edits, missing=None if edits else missing)


def _plan_aider(around: Surroundings) -> Plan:
    edits = [
        Put(path=("openai-api-base",), value=f"{around.url}/v1"),
        Put(path=("set-env",), value=[f"ANTHROPIC_API_BASE={around.url}"]),
    ]
    return Plan(file=around.file(around.find_folder("aider"), "yaml"), edits=edits)


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            name="claude",
            title="Claude Code",
            command="claude",
            gateway=_plan_claude,
            hooks=HookClient(
                name="claude-code", form=Format.CLAUDE_CODE, file="settings.json", project_file=".claude/settings.json"
            ),
        ),
        Client(
            name="codex",
            title="Codex",
            command="codex",
            gateway=_plan_codex,
            hooks=HookClient(name="codex", form=Format.CODEX, file="hooks.json", project_file=".codex/hooks.json"),
        ),
        Client(name="opencode", title="opencode", command="opencode", gateway=_plan_opencode),
        Client(name="pi", title="pi", command="pi", gateway=_plan_pi),
        Client(name="qwen", title="Qwen Code", command="qwen", gateway=_plan_qwen),
        Client(name="cline", title="Cline", command="cline", gateway=_plan_cline),
        Client(name="aider", title="aider", command="aider", gateway=_plan_aider),
    )
}
HOOK_CLIENTS: Mapping[str, HookClient] = {client.hooks.name: client.hooks for client in CLIENTS.values() if client.hooks}
