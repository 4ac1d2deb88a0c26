"""The clients that `threadkeep setup` knows: where they keep their settings, and what to write there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from threadkeep.adapters.client_hooks.clients import CLIENTS as HOOK_CLIENTS
from threadkeep.adapters.client_hooks.clients import HookClient, is_ours, wanted_groups
from threadkeep.adapters.client_settings.settings_file import Add, Form, Put, SettingsFile

Way = Literal["gateway", "hooks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What setup knows about the user: environment, home, working folder, the folder for notes and the gateway's address."""

    environ: Mapping[str, str]
    home: Path
    project: Path
    notes: Path
    url: str
    anthropic_upstream: str = ""

    def folder(self, variable: str, default: str) -> Path:
        """Return the folder a variable names, or the default one below the home."""
        named = self.environ.get(variable)
        return Path(named) if named else self.home / default

    def file(self, path: Path, form: Form, *, purpose: str) -> SettingsFile:
        """Return a settings file whose notes are kept in the notes folder."""
        return SettingsFile(path=path, form=form, purpose=purpose, notes=self.notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to write into which file.

    Attributes:
        remarks: What else the user should know.
        missing: What the client lacks, and how to get it, where nothing can be written yet.
    """

    file: SettingsFile
    edits: Sequence[Put | Add]
    remarks: tuple[str, ...] = ()
    missing: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client.

    Attributes:
        name: What people type after `threadkeep setup`.
        command: The program it is started with.
        folder: Returns the folder of its settings.
        gateway: Returns what points it at the gateway.
        hooks: Its hooks, where it has some that setup knows.
    """

    name: str
    title: str
    command: str
    folder: Callable[[Surroundings], Path]
    gateway: Callable[[Surroundings], Plan]
    hooks: HookClient | None = None

    @property
    def ways(self) -> tuple[Way, ...]:
        """What setup can do for it."""
        return ("gateway",) if self.hooks is None else ("gateway", "hooks")


def plan_hooks(client: HookClient, around: Surroundings, *, program: Sequence[str], store: str | None, scope: str) -> Plan:
    """Return what puts threadkeep's hooks into a client's settings."""
    path = client.settings(scope, environ={**around.environ, "HOME": str(around.home)}, project=around.project)
    edits = [
        Add(path=("hooks", event), value=group, replaces=lambda element: is_ours(element, client))
        for event, group in wanted_groups(program, client, store=store).items()
    ]
    remarks = (
        ("Codex runs hooks only after you trusted them; it asks for that in its terminal.",) if client.name == "codex" else ()
    )
    return Plan(file=around.file(path, "json", purpose="hooks"), edits=edits, remarks=remarks)


def has_chatgpt_login(around: Surroundings) -> bool:
    """Whether Codex is logged in with a ChatGPT account and no API key, so that a base URL cannot serve it."""
    login = _codex_login(around)
    return bool(login.get("tokens")) and not login.get("OPENAI_API_KEY") and not around.environ.get("OPENAI_API_KEY")


def _claude_folder(around: Surroundings) -> Path:
    return around.folder("CLAUDE_CONFIG_DIR", ".claude")


def _claude(around: Surroundings) -> Plan:
    edits = [Put(path=("env", "ANTHROPIC_BASE_URL"), value=around.url)]
    if around.anthropic_upstream.startswith("https://api.anthropic.com"):
        # Behind a foreign base URL Claude Code withholds the 1M window unless it is told that Anthropic answers there.
        edits.append(Put(path=("env", "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"), value="1"))
    remark = (
        "Claude Code goes on compacting by itself. To have threadkeep do it, put these lines into "
        '~/.config/threadkeep/threadkeep.toml: [auto_compact_for] and, below it, claude-code = "on".'
    )
    file = around.file(_claude_folder(around) / "settings.json", "json", purpose="gateway")
    return Plan(file=file, edits=edits, remarks=(remark,))


def _codex_folder(around: Surroundings) -> Path:
    return around.folder("CODEX_HOME", ".codex")


def _codex(around: Surroundings) -> Plan:
    # With a login of its own, Codex keeps the key in auth.json and does not read a variable.
    has_key = bool(_codex_login(around).get("OPENAI_API_KEY"))
    key: dict[str, object] = {"requires_openai_auth": True} if has_key else {"env_key": "OPENAI_API_KEY"}
    provider = {
        "name": "threadkeep",
        "base_url": f"{around.url}/v1",
        **key,
        "wire_api": "responses",
        "supports_websockets": False,
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
    return Plan(
        file=around.file(_codex_folder(around) / "config.toml", "toml", purpose="gateway"), edits=edits, remarks=tuple(remarks)
    )


def _codex_login(around: Surroundings) -> Mapping[str, object]:
    try:
        login = json.loads((_codex_folder(around) / "auth.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return login if isinstance(login, dict) else {}


def _opencode_folder(around: Surroundings) -> Path:
    return around.folder("XDG_CONFIG_HOME", ".config") / "opencode"


def _opencode(around: Surroundings) -> Plan:
    folder = _opencode_folder(around)
    # opencode reads all three; of two that say the same thing, the first in this list counts.
    names = ("opencode.jsonc", "opencode.json", "config.json")
    files = [around.file(folder / name, "jsonc", purpose="gateway") for name in names]
    # One that setup wrote to stays the one, so that an undo finds it.
    noted = next((file for file in files if file.is_noted), None)
    file = noted or next((file for file in files if file.path.exists()), files[1])
    edits = [
        Put(path=("provider", provider, "options", "baseURL"), value=f"{around.url}/v1") for provider in ("openai", "anthropic")
    ]
    return Plan(file=file, edits=edits)


def _pi_folder(around: Surroundings) -> Path:
    return around.folder("PI_CODING_AGENT_DIR", ".pi/agent")


def _pi(around: Surroundings) -> Plan:
    # Only the address: pi keeps the models and the credentials of its own providers.
    edits = [
        Put(path=("providers", "openai", "baseUrl"), value=f"{around.url}/v1"),
        Put(path=("providers", "anthropic", "baseUrl"), value=around.url),
    ]
    return Plan(file=around.file(_pi_folder(around) / "models.json", "jsonc", purpose="gateway"), edits=edits)


def _qwen_folder(around: Surroundings) -> Path:
    return around.home / ".qwen"


def _qwen(around: Surroundings) -> Plan:
    file = around.file(_qwen_folder(around) / "settings.json", "jsonc", purpose="gateway")
    settings = file.read()
    assert isinstance(settings, dict)
    remarks = []
    if settings.get("modelProviders"):
        remarks.append("Models below modelProviders have addresses of their own; set their baseUrl yourself where you want to.")
    security = settings.get("security")
    auth = security.get("auth") if isinstance(security, dict) else None
    if not isinstance(auth, dict) or auth.get("selectedType") != "openai":
        remarks.append("qwen uses this address only with an API key of an OpenAI-compatible provider: choose that with /auth.")
    edits = [Put(path=("security", "auth", "baseUrl"), value=f"{around.url}/v1")]
    return Plan(file=file, edits=edits, remarks=tuple(remarks))


def _cline_folder(around: Surroundings) -> Path:
    return around.home / ".cline"


def _cline(around: Surroundings) -> Plan:
    file = around.file(_cline_folder(around) / "data" / "settings" / "providers.json", "json", purpose="gateway")
    settings = file.read()
    providers = settings.get("providers") if isinstance(settings, dict) else None
    names = [name for name in ("anthropic", "openai-native") if isinstance(providers, dict) and name in providers]
    missing = (
        f"{file.path} has no provider that a gateway can stand in front of; "
        "run `cline auth -p anthropic -k KEY -m MODEL` (or -p openai-native) first"
    )
    edits = [Put(path=("providers", name, "settings", "baseUrl"), value=f"{around.url}/v1") for name in names]
    return Plan(file=file, edits=edits, missing=None if edits else missing)


def _aider(around: Surroundings) -> Plan:
    edits = [
        Put(path=("openai-api-base",), value=f"{around.url}/v1"),
        Put(path=("set-env",), value=[f"ANTHROPIC_API_BASE={around.url}"]),
    ]
    return Plan(file=around.file(around.home / ".aider.conf.yml", "yaml", purpose="gateway"), edits=edits)


def _every() -> Iterator[Client]:
    yield Client(
        name="claude",
        title="Claude Code",
        command="claude",
        folder=_claude_folder,
        gateway=_claude,
        hooks=HOOK_CLIENTS["claude-code"],
    )
    yield Client(name="codex", title="Codex", command="codex", folder=_codex_folder, gateway=_codex, hooks=HOOK_CLIENTS["codex"])
    yield Client(name="opencode", title="opencode", command="opencode", folder=_opencode_folder, gateway=_opencode)
    yield Client(name="pi", title="pi", command="pi", folder=_pi_folder, gateway=_pi)
    yield Client(name="qwen", title="Qwen Code", command="qwen", folder=_qwen_folder, gateway=_qwen)
    yield Client(name="cline", title="Cline", command="cline", folder=_cline_folder, gateway=_cline)
    yield Client(
        name="aider", title="aider", command="aider", folder=lambda around: around.home / ".aider.conf.yml", gateway=_aider
    )


CLIENTS: Mapping[str, Client] = {client.name: client for client in _every()}
