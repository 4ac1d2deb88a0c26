"""Settings, by precedence: flags, `THREADKEEP_*`, the project's `threadkeep.toml`, the user's; each value has its source."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from threadkeep.errors import InvalidSetting, UnusableFile
from threadkeep.memory.settings import DAY_MS, POLLUTING_TOOLS, MemorySettings, parse_tool_patterns

FILE_NAME = "threadkeep.toml"
DEFAULT_STORE = "~/.local/share/threadkeep/threadkeep.db"
USER_FILE = "~/.config/threadkeep/threadkeep.toml"

Layers = list[tuple[str, Mapping[str, object]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings. Names follow Codex where it has one.

    Attributes:
        store: Where threads are kept: a path, sqlite:///PATH or postgresql://…
        store_listen: A direct address of the PostgreSQL server for notifications, if `store` leads through a pooler.
        tenant: The tenant whose threads the library and the command line use.
        model_context_window: The window, in tokens, of a model that `model_windows` does not list.
        model_auto_compact_token_limit: The hard limit, in tokens. By default nine tenths of the model's window.
        model_auto_compact_token_limit_scope: What the hard limit counts: everything that is sent, or only what follows the head.
        model_soft_compact_token_limit: The soft limit, in tokens: above it a compaction is prepared in the background. By default
            three quarters of the model's window, and never above the hard limit.
        model_windows: The windows of models, in tokens, by name.
        compact_strategy: How the session state is drafted. `default` is session if the conversation's own model or
            `compact_model` can be asked, otherwise extractive, which asks no model.
        compact_model: The model that drafts the session state: openai:NAME, anthropic:NAME or NAME@URL.
        compact_prompt: Your own instructions for the model that drafts. The rules for its answer still apply.
        compact_user_message_tokens: How many tokens of people's newest messages stay messages of their own: this many with
            handoff; with other strategies half as many, and at most a tenth of the window.
        compact_state_tokens: The budget of the session state, in tokens.
        compact_state_messages_percent: The share of the state for older messages of people.
        compact_state_findings_percent: The share of the state for what the agent found out.
        compact_state_handoff_percent: The share of the state for what the last turns asked for and did.
        compact_state_evidence_percent: The share of the state for changed files and other pointers.
        compact_state_drafted_percent: The share that a model's own lines may take of what the other parts leave.
        compact_timeout_s: How long a draft may take before the next strategy is tried.
        compact_wait_s: How long a turn with a full window waits for a draft. Then the window is compacted without a model.
        compact_draft_input_tokens: How many tokens a draft that no person asked for may read, all its requests together.
        compact_draft_output_tokens: How many tokens a draft that no person asked for may write, if the length of an answer can be
            set.
        compact_draft_cents: How many US cents a draft that no person asked for may cost, if the provider reports the price.
        memory_model: The model that reads threads for memory. Without it, no model is asked.
        memory_idle_minutes: How long a thread must be idle before it is read for memory.
        memory_unused_days: After how many days an unused memory is retired.
        memory_summary_tokens: How long the summary of memories may be, in tokens.
        memory_polluting_tools: Tools whose output comes from strangers. A thread that used one is not read for memory.
        chat_memory: Whether `threadkeep chat` shows its model the summary of memories.
        gateway_memory: Whether the gateway shows models the summary of memories in new conversations: never, in all but Claude
            Code's, or in all.
        hooks: Commands that run before and after a compaction.
        chat_model: The model of `threadkeep chat`.
        profile: The table below `profiles` whose settings replace those of the files.
        auto_compact: Whether the gateway compacts by itself: never, prepared in the background, or before a window is full.
        auto_compact_for: `auto_compact` by model, client, `route:NAME` or `tenant:NAME`.
        gateway_asks_model: Whether a compaction in the gateway may ask the client's model with the client's key: if the gateway
            compacts by itself and no request waits (auto), never, or always.
        gateway_websocket: Whether clients may use WebSocket for the Responses API: never, if the provider opens one too, or
            always. A provider without WebSocket is then asked over HTTP.
        gateway_recall_tool: Whether the gateway gives models a recall tool.
        gateway_recall_tool_for: `gateway_recall_tool` by model, client, `route:NAME` or `tenant:NAME`.
        bound_thinking: What happens to thinking that a provider bound to a history that has changed.
        prompt_cache_key: Whether requests have the client's own cache key or one made from the thread.
        prompt_cache_breakpoints: Whether the gateway marks the ends of head and checkpoint for GPT-5.6 and later.
        compact_commands: The words that compact a conversation when typed in a chat, separated by blanks.
        control_commands: The first words of all other commands typed in a chat, such as `tk status`, separated by blanks.
        persistence: Whether everything is recorded, or only what is needed to continue.
        openai_upstream: Where Responses and Chat Completions requests go.
        anthropic_upstream: Where Messages requests go.
        gemini_upstream: Where Gemini requests go.
        upstream_dialect: The API that the upstreams speak: `chat` translates Responses and Messages requests for a server that
            has Chat Completions alone, `same` never does, and `auto` does where a server does not know the client's own path.
        keys_file: The file with the gateway's keys and their tenants.
        access_log: Whether the gateway writes a line for each request.
        log_content: Whether that line contains the bodies of conversation requests.
        host: The address the gateway listens on. Any but this machine's own needs keys.
        port: The port the gateway listens on.
    """

    store: str = DEFAULT_STORE
    store_listen: str | None = None
    tenant: str = "local"
    model_context_window: int = 272_000
    model_auto_compact_token_limit: int | None = None
    model_auto_compact_token_limit_scope: str = "total"
    model_soft_compact_token_limit: int | None = None
    model_windows: Mapping[str, int] = field(default_factory=dict)
    compact_strategy: str = "default"
    compact_model: str | None = None
    compact_prompt: str | None = None
    compact_user_message_tokens: int = 20_000
    compact_state_tokens: int = 6_000
    compact_state_messages_percent: int = 58
    compact_state_findings_percent: int = 20
    compact_state_handoff_percent: int = 17
    compact_state_evidence_percent: int = 5
    compact_state_drafted_percent: int = 25
    compact_timeout_s: int = 300
    compact_wait_s: int = 20
    compact_draft_input_tokens: int = 400_000
    compact_draft_output_tokens: int = 16_000
    compact_draft_cents: int = 100
    memory_model: str | None = None
    memory_idle_minutes: int = 360
    memory_unused_days: int = 30
    memory_summary_tokens: int = 2_500
    memory_polluting_tools: str = POLLUTING_TOOLS
    chat_memory: str = "on"
    gateway_memory: str = "off"
    hooks: Mapping[str, object] = field(default_factory=dict)
    chat_model: str | None = None
    profile: str | None = None
    auto_compact: str = "off"
    auto_compact_for: Mapping[str, str] = field(default_factory=dict)
    gateway_asks_model: str = "auto"
    gateway_websocket: str = "auto"
    gateway_recall_tool: str = "no"
    gateway_recall_tool_for: Mapping[str, str] = field(default_factory=dict)
    bound_thinking: str = "strip"
    prompt_cache_key: str = "client"
    prompt_cache_breakpoints: str = "no"
    compact_commands: str = "/compact /codex-compact"
    control_commands: str = "tk"
    persistence: str = "extended"
    openai_upstream: str = "https://api.openai.com"
    anthropic_upstream: str = "https://api.anthropic.com"
    gemini_upstream: str = "https://generativelanguage.googleapis.com"
    upstream_dialect: str = "auto"
    keys_file: str | None = None
    access_log: str = "on"
    log_content: str = "off"
    host: str = "127.0.0.1"
    port: int = 4621

    @property
    def upstreams(self) -> Mapping[str, str]:
        """Where each provider's API is, by the provider's name."""
        names = [each.name for each in fields(self) if each.name.endswith("_upstream")]
        return {name.removesuffix("_upstream"): str(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One resolved value and where it came from."""

    name: str
    value: str | int | Mapping[str, object] | None
    origin: str


CHOICES = {
    "model_auto_compact_token_limit_scope": ("total", "body_after_prefix"),
    "auto_compact": ("off", "background", "on"),
    "gateway_asks_model": ("auto", "no", "yes"),
    "gateway_websocket": ("off", "auto", "on"),
    "gateway_recall_tool": ("no", "yes"),
    "chat_memory": ("on", "off"),
    "gateway_memory": ("off", "on", "all"),
    "bound_thinking": ("strip", "drop_block"),
    "prompt_cache_key": ("client", "derived"),
    "prompt_cache_breakpoints": ("no", "yes"),
    "persistence": ("limited", "extended"),
    "access_log": ("on", "off"),
    "log_content": ("on", "off"),
}
# Settings that are numbers, and their bounds.
NUMBERS = {
    "model_context_window": (1, 1_000_000_000),
    "model_auto_compact_token_limit": (1, 1_000_000_000),
    "model_soft_compact_token_limit": (1, 1_000_000_000),
    "compact_user_message_tokens": (0, 1_000_000_000),
    "compact_state_tokens": (200, 1_000_000),
    "compact_state_messages_percent": (0, 100),
    "compact_state_findings_percent": (0, 100),
    "compact_state_handoff_percent": (0, 100),
    "compact_state_evidence_percent": (0, 100),
    "compact_state_drafted_percent": (0, 100),
    "compact_timeout_s": (1, 3_600),
    "compact_wait_s": (0, 3_600),
    "compact_draft_input_tokens": (0, 1_000_000_000),
    "compact_draft_output_tokens": (0, 1_000_000),
    "compact_draft_cents": (0, 1_000_000),
    "memory_idle_minutes": (0, 100_000),
    "memory_unused_days": (0, 3_650),
    "memory_summary_tokens": (0, 1_000_000),
    "port": (0, 65_535),
}


# Settings that are tables, which only a file can hold. `profiles` holds settings of its own, taken by the name in `profile`.
TABLES = frozenset({"model_windows", "auto_compact_for", "gateway_recall_tool_for", "hooks"})
PROFILES = "profiles"

_RECEIVES_CREDENTIALS = "decides who is sent your credentials and what your sessions say"
_HOLDS_THREADS = "decides where your threads are kept and whose they are"
_LETS_IN = "decides who and what is let in"
_SPENDS = "decides what a model may cost you"
# Settings that a project's file must not contain, and why: a project may come from a stranger.
USERS_ALONE: Final[Mapping[str, str]] = {
    "store": _HOLDS_THREADS,
    "store_listen": _HOLDS_THREADS,
    "tenant": _HOLDS_THREADS,
    "log_content": "decides whether what is said is written to a log",
    "openai_upstream": _RECEIVES_CREDENTIALS,
    "anthropic_upstream": _RECEIVES_CREDENTIALS,
    "gemini_upstream": _RECEIVES_CREDENTIALS,
    "compact_model": _RECEIVES_CREDENTIALS,
    "memory_model": _RECEIVES_CREDENTIALS,
    "chat_model": _RECEIVES_CREDENTIALS,
    "gateway_asks_model": "decides what a client's key is used for",
    "compact_draft_input_tokens": _SPENDS,
    "compact_draft_output_tokens": _SPENDS,
    "compact_draft_cents": _SPENDS,
    "hooks": "runs commands",
    "keys_file": _LETS_IN,
    "host": _LETS_IN,
    "memory_polluting_tools": "decides whose words are remembered",
}


def resolve(
    *,
    flags: Mapping[str, str | int | Mapping[str, str] | None],
    environ: Mapping[str, str],
    project: Path | None,
    host: Path | None = None,
    user: Path | None = None,
) -> list[Setting]:
    """Return every setting, resolved.

    Args:
        project: The project's folder, whose file may set what is not in `USERS_ALONE`; None reads none.
        host: A folder whose file takes precedence over the user's: that of a host which includes threadkeep.
        user: The user's file, if it is not `USER_FILE`.

    Raises:
        BadInput: A file cannot be read, a value is invalid, or a project's file has a setting of `USERS_ALONE`; the message names
            the file or variable.
    """
    defaults = Config()
    user_file = user if user is not None else Path(USER_FILE).expanduser()
    layers: Layers = [
        ("flag", {name: value for name, value in flags.items() if value is not None}),
        ("environment", _read_environment(environ)),
    ]
    strange = project / FILE_NAME if project is not None else None
    if strange is not None and not _is_same(strange, user_file):
        layers.append((str(strange), _read_project_file(strange)))
    own = [user_file] if host is None else [host / FILE_NAME, user_file]
    layers = _apply_profile([*layers, *((str(file), _read_file(file)) for file in own)], strange=str(strange))
    settings: list[Setting] = []
    for name in (each.name for each in fields(Config)):
        origin, value = next(
            ((origin, values[name]) for origin, values in layers if name in values), ("default", getattr(defaults, name))
        )
        settings.append(Setting(name=name, value=_check_value(name, value, origin), origin=origin))
    return settings


def build_config(settings: list[Setting]) -> Config:
    """Return the settings as a value."""
    values: dict[str, object] = {setting.name: setting.value for setting in settings}
    return Config(**values)  # type: ignore[arg-type]  # _checked gave each value the type of its field


def _apply_profile(layers: Layers, *, strange: str) -> Layers:
    """Insert the chosen profile between flags and environment and the files.

    Raises:
        BadInput: No file has that profile, it has an unknown setting, or the project's file (`strange`) chose a profile of the
            user with a setting of `USERS_ALONE`.
    """
    chosen, chooser = next(((values["profile"], origin) for origin, values in layers if values.get("profile")), (None, ""))
    if chosen is None:
        return layers
    known = {each.name for each in fields(Config)} - TABLES - {"profile"}
    found: Layers = []
    for origin, values in layers[2:]:
        profiles = values.get(PROFILES, {})
        profile = profiles.get(chosen) if isinstance(profiles, Mapping) else None
        if isinstance(profile, Mapping):
            unknown = sorted(set(profile) - known)
            if unknown:
                raise InvalidSetting(
                    unknown[0],
                    origin=origin,
                    text=f"{origin}: profile {chosen!r} sets {unknown[0]!r}, which no profile can set; remove it",
                )
            alone = [name for name in USERS_ALONE if name in profile]
            if alone and chooser == strange:
                raise InvalidSetting(
                    alone[0],
                    origin=chooser,
                    text=f"{chooser}: profile {chosen!r} of {origin} sets {alone[0]!r}, which {USERS_ALONE[alone[0]]}; "
                    "choose it by THREADKEEP_PROFILE",
                )
            found.append((f"{origin} [{PROFILES}.{chosen}]", profile))
    if not found:
        text = f"no threadkeep.toml has a profile called {chosen!r}; write [{PROFILES}.{chosen}] in one"
        raise InvalidSetting("profile", origin=chooser, text=text)
    return [*layers[:2], *found, *layers[2:]]


def _read_environment(environ: Mapping[str, str]) -> dict[str, object]:
    names = {f"THREADKEEP_{each.name.upper()}": each.name for each in fields(Config) if each.name not in TABLES}
    return {names[variable]: value for variable, value in environ.items() if variable in names}


def _read_file(path: Path) -> Mapping[str, object]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UnusableFile(str(path), reason=f"cannot be read: {error}; mend it, or remove it") from error
    known = {each.name for each in fields(Config)} | {PROFILES}
    unknown = sorted(set(values) - known)
    if unknown:
        text = f"{path}: no setting is called {unknown[0]!r}; known: {', '.join(sorted(known))}"
        raise InvalidSetting(unknown[0], origin=str(path), text=text)
    return values


def _read_project_file(path: Path) -> Mapping[str, object]:
    """Return the settings and profiles of a project's file.

    Raises:
        BadInput: It has a setting of `USERS_ALONE`.
    """
    values = _read_file(path)
    profiles = values.get(PROFILES)
    tables = [values, *(profiles.values() if isinstance(profiles, Mapping) else ())]
    named = {name for table in tables if isinstance(table, Mapping) for name in table}
    refused = next((name for name in USERS_ALONE if name in named), None)
    if refused is not None:
        elsewhere = "" if refused in TABLES else f", set THREADKEEP_{refused.upper()}, or use a flag where the command has one"
        raise InvalidSetting(
            refused,
            origin=str(path),
            text=f"{path}: {refused!r} {USERS_ALONE[refused]}, and a folder may come from elsewhere; "
            f"move it to your own {USER_FILE}{elsewhere}",
        )
    return values


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths are the same file, as when the user works in the folder of their own settings."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def list_choices(name: str) -> tuple[str, ...]:
    """Return the values that a setting may have; none if any text will do."""
    if name == "compact_strategy":
        # Only here: strategies take long to import, and few commands set one.
        from threadkeep.compaction.strategies import list_names

        return list_names()
    return CHOICES.get(name, ())


def _check_value(name: str, value: object, origin: str) -> str | int | Mapping[str, object] | None:
    if value is None:
        return None
    if name in TABLES:
        return _check_table(name, value, origin)
    if name in NUMBERS:
        return _parse_number(name, value, origin)
    if not isinstance(value, str) or not value:
        raise _refuse(name, origin, f"must be a text, not {value!r}")
    if origin != "default" and (choices := list_choices(name)) and value not in choices:
        raise _refuse(name, origin, f"must be one of {', '.join(choices)}, not {value!r}")
    return value


def _refuse(name: str, origin: str, reason: str) -> InvalidSetting:
    return InvalidSetting(name, origin=origin, text=f"{name} ({origin}) {reason}")


def _check_table(name: str, value: object, origin: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _refuse(name, origin, f"must be a table, not {value!r}")
    if name == "hooks" and value:
        _check_hooks(value, origin)
    if name == "model_windows":
        wrong = next((key for key, tokens in value.items() if not isinstance(tokens, int) or tokens < 1), None)
        if wrong is not None:
            raise _refuse(f"model_windows.{wrong}", origin, f"must be a number of tokens, not {value[wrong]!r}")
    if name.endswith("_for"):
        choices = CHOICES[name.removesuffix("_for")]
        wrong = next((key for key, mode in value.items() if mode not in choices), None)
        if wrong is not None:
            raise _refuse(f"{name}.{wrong}", origin, f"must be one of {', '.join(choices)}, not {value[wrong]!r}")
    return value


def _check_hooks(table: Mapping[str, object], origin: str) -> None:
    """Check hooks here, where the origin of the table is known."""
    from threadkeep.hooks import parse_hooks

    try:
        parse_hooks(table)
    except InvalidSetting as error:
        raise InvalidSetting(error.name, origin=origin, text=f"{origin}: {error}") from None


def _parse_number(name: str, value: object, origin: str) -> int:
    low, high = NUMBERS[name]
    try:
        number = int(str(value))
    except ValueError:
        raise _refuse(name, origin, f"must be a whole number, not {value!r}") from None
    if not low <= number <= high:
        raise _refuse(name, origin, f"must be between {low} and {high}, not {value!r}")
    return number


def build_memory_settings(config: Config) -> MemorySettings:
    """Return the settings of the memory."""
    return MemorySettings(
        idle_ms=config.memory_idle_minutes * 60_000,
        model=config.memory_model,
        summary_tokens=config.memory_summary_tokens,
        polluting_tools=parse_tool_patterns(config.memory_polluting_tools),
        unused_ms=config.memory_unused_days * DAY_MS,
    )
