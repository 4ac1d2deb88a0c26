"""The clients `threadkeep run` knows by name, and how each is pointed at a gateway."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from threadkeep.adapters.client_settings.text_edits import read_settings
from threadkeep.errors import CannotLaunch, UneditableSettings
from threadkeep.launch.plan import ANTHROPIC_URL, FOLDER, OPENAI_URL, Place, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client: its title, the program, how to install it, and the plan that points it at a gateway."""

    title: str
    command: str
    install: str
    plan: Callable[[Place], Plan]


def plan_variables(place: Place) -> Plan:
    """Set the variables that most programs of either API read."""
    openai = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    return Plan(
        arguments=place.arguments,
        environment={**dict.fromkeys(openai, OPENAI_URL), "ANTHROPIC_BASE_URL": ANTHROPIC_URL},
        openai_upstream=place.find_variable(*openai),
        anthropic_upstream=place.find_variable("ANTHROPIC_BASE_URL"),
    )


# Behind a foreign base URL Claude Code leaves out features of Anthropic's own API, such as the window of a million tokens.
FIRST_PARTY: Final = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
# These make it ask another cloud, whatever the base URL says.
OTHER_CLOUDS: Final = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")


def plan_claude_code(place: Place) -> Plan:
    """Set the base URL. Claude Code's settings files win over the environment; where one names a URL, `--settings` wins over it.

    Raises:
        CannotLaunch: It is set to ask a cloud that the gateway does not speak to, or its `--settings` cannot be read.
    """
    own = Path(place.environ.get("CLAUDE_CONFIG_DIR") or place.home / ".claude") / "settings.json"
    settings = {**place.environ, **_find_table(_read_json(own), "env")}
    for name in OTHER_CLOUDS:
        if settings.get(name) not in (None, "", "0", "false"):
            raise CannotLaunch(
                "Claude Code", reason=f"{name} sends it to a cloud that has no base URL to set; unset it for this run"
            )
    upstream = _find_text(settings, "ANTHROPIC_BASE_URL")
    projects = [place.folder / ".claude" / name for name in ("settings.json", "settings.local.json")]
    ignored = [path for path in projects if _find_text(_read_json(path), "env", "ANTHROPIC_BASE_URL")]
    in_files = bool(_find_text(_read_json(own), "env", "ANTHROPIC_BASE_URL")) or bool(ignored)
    # Requests that went to Anthropic so far still do.
    first_party = {} if upstream else {FIRST_PARTY: place.environ.get(FIRST_PARTY, "1")}
    return Plan(
        arguments=_override_claude_settings(place, needed=in_files),
        environment={"ANTHROPIC_BASE_URL": ANTHROPIC_URL, **first_party},
        anthropic_upstream=upstream,
        notes=tuple(f"ANTHROPIC_BASE_URL in {path} is not used in this run" for path in ignored),
    )


def _override_claude_settings(place: Place, *, needed: bool) -> tuple[str, ...]:
    """Return the arguments with our base URL among their `--settings`: Claude Code reads only the last one."""
    ours = {"env": {"ANTHROPIC_BASE_URL": ANTHROPIC_URL}}
    words = list(place.arguments)
    at = next((index for index, word in enumerate(words) if word == "--settings" or word.startswith("--settings=")), None)
    if at is None:
        return ("--settings", json.dumps(ours), *words) if needed else place.arguments
    _, equals, value = words[at].partition("=")
    given = value if equals else "".join(words[at + 1 : at + 2])
    try:
        settings = _parse_json(given if given.lstrip().startswith("{") else (place.folder / given).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, UneditableSettings):
        raise CannotLaunch("Claude Code", reason=f"its --settings {given!r} is neither JSON nor a file of it") from None
    words[at : at + (1 if equals else 2)] = ["--settings", json.dumps(_merge(settings, ours))]
    return tuple(words)


# Where Codex sends the requests of a user who signed in with ChatGPT.
CHATGPT_UPSTREAM: Final = "https://chatgpt.com/backend-api/codex"
# The window Codex assumes for its own models.
CODEX_WINDOW_TOKENS: Final = 272_000
CODEX_STATUS_SECONDS: Final = 20
CODEX_PROVIDER: Final = {
    "name": "threadkeep",
    "base_url": OPENAI_URL,
    "env_key": "OPENAI_API_KEY",
    "wire_api": "responses",
    # As the built-in one; where the upstream has none, the gateway says so at once and Codex goes on over HTTP.
    "supports_websockets": True,
}


def plan_codex(place: Place) -> Plan:
    """Override, by `-c`, the base URL of the provider that Codex is configured with.

    The built-in one stays `openai`, so that Codex goes on to list the same sessions. Only without a login a provider of our own
    reads OPENAI_API_KEY, which the built-in one does not.

    Raises:
        CannotLaunch: Codex has neither a login nor a key, or asks a provider whose URL cannot be set.
    """
    config = _read_codex_config(Path(place.environ.get("CODEX_HOME") or place.home / ".codex"))
    provider = _find_text(config, "model_provider") or "openai"
    if provider != "openai":
        base_url = _find_text(config, "model_providers", provider, "base_url")
        if base_url is None:
            reason = f"it is configured for the provider {provider!r}, whose base URL cannot be set; choose another"
            raise CannotLaunch("Codex", reason=reason)
        return _plan_codex_settings(place, {f"model_providers.{provider}.base_url": OPENAI_URL}, upstream=base_url)
    upstream = _find_text(config, "openai_base_url") or place.find_variable("OPENAI_BASE_URL")
    login = _ask_codex_login(place)
    if login is not None:
        default = CHATGPT_UPSTREAM if login == "chatgpt" else None
        return _plan_codex_settings(place, {"openai_base_url": OPENAI_URL}, upstream=upstream or default)
    if not place.environ.get("OPENAI_API_KEY"):
        raise CannotLaunch("Codex", reason="it has no login and OPENAI_API_KEY is not set; run `codex login`, or set the key")
    ours = {"model_provider": "threadkeep", "model_providers.threadkeep": CODEX_PROVIDER}
    return _plan_codex_settings(place, ours, upstream=upstream)


def _plan_codex_settings(place: Place, settings: Mapping[str, object], *, upstream: str | None) -> Plan:
    flat: dict[str, object] = {}
    for name, value in settings.items():
        flat |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, Mapping) else {name: value}
    # The values are TOML, which writes text and booleans as JSON does.
    overrides = [word for name, value in flat.items() for word in ("-c", f"{name}={json.dumps(value)}")]
    return Plan(arguments=(*overrides, *place.arguments), openai_upstream=upstream, window_tokens=CODEX_WINDOW_TOKENS)


def _read_codex_config(folder: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        # Codex itself will report what is wrong with it.
        return {}


def _ask_codex_login(place: Place) -> str | None:
    """Return `chatgpt` or `key`, as Codex reports its login; None where it has none."""
    if place.environ.get("CODEX_API_KEY"):
        return "key"
    try:
        asked = subprocess.run(
            (place.program, "login", "status"),
            env=dict(place.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CODEX_STATUS_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if asked.returncode != 0:
        return None
    return "chatgpt" if b"chatgpt" in (asked.stdout + asked.stderr).lower() else "key"


OPENCODE_VARIABLE: Final = "OPENCODE_CONFIG_CONTENT"
ANTHROPIC_PACKAGE: Final = "@ai-sdk/anthropic"


def plan_opencode(place: Place) -> Plan:
    """Set, in a variable that wins over opencode's files, the base URL of `openai`, `anthropic` and the user's own provider.

    opencode adds no `/v1` of its own to either.

    Raises:
        CannotLaunch: The variable already holds something that is no JSON.
    """
    given = place.environ.get(OPENCODE_VARIABLE, "")
    try:
        content = _parse_json(given) if given.strip() else {}
    except UneditableSettings:
        raise CannotLaunch("opencode", reason=f"{OPENCODE_VARIABLE} holds no JSON object; mend or unset it") from None
    config = _read_opencode_config(place, content)
    providers = {name: _find_table(config, "provider", name) for name in _find_table(config, "provider")}
    preferred = (_find_text(config, "model") or "").partition("/")[0]
    urls = {name: _find_text(provider, "options", "baseURL") for name, provider in providers.items()}
    routed = {"openai", "anthropic", *({preferred} if urls.get(preferred) else ())}
    # Each API leads to one upstream, that of the user's model first. Providers of that API that lead elsewhere stay as they are.
    upstreams: dict[bool, str | None] = {}
    for name in sorted(routed, key=lambda each: each != preferred):
        upstreams.setdefault(_speaks_anthropic(name, providers.get(name, {})), urls.get(name))
    chosen = {
        name: {"options": {"baseURL": OPENAI_URL}}
        for name in routed
        if urls.get(name) in (None, upstreams[_speaks_anthropic(name, providers.get(name, {}))])
    }
    return Plan(
        arguments=place.arguments,
        environment={OPENCODE_VARIABLE: json.dumps(_merge(content, {"provider": chosen}))},
        openai_upstream=upstreams.get(False) or place.find_variable("OPENAI_BASE_URL"),
        anthropic_upstream=upstreams.get(True) or place.find_variable("ANTHROPIC_BASE_URL"),
    )


def _read_opencode_config(place: Place, content: Mapping[str, object]) -> Mapping[str, object]:
    """Return the user's settings, later files over earlier ones. One in the working folder may be a stranger's: ignored."""
    folder = Path(place.environ.get("XDG_CONFIG_HOME") or place.home / ".config") / "opencode"
    files = [folder / name for name in ("config.json", "opencode.json", "opencode.jsonc")]
    if named := place.environ.get("OPENCODE_CONFIG"):
        files.append(place.folder / named)
    merged: dict[str, Any] = {}
    for settings in [*map(_read_json, files), content]:
        merged = _merge(merged, settings)
    return merged


def _speaks_anthropic(name: str, provider: Mapping[str, object]) -> bool:
    return (_find_text(provider, "npm") or (ANTHROPIC_PACKAGE if name == "anthropic" else "")) == ANTHROPIC_PACKAGE


PI_EXTENSION: Final = "threadkeep.ts"
# Commands about packages; they take no `-e` and ask no model.
PI_WITHOUT_MODEL: Final = frozenset({"install", "remove", "uninstall", "update", "list", "config"})


def plan_pi(place: Place) -> Plan:
    """Set, by an extension for this run, the base URL of `openai`, `anthropic` and a default provider of the user's own."""
    if place.arguments[:1] and place.arguments[0] in PI_WITHOUT_MODEL:
        return Plan(arguments=place.arguments)
    agent = Path(place.environ.get("PI_CODING_AGENT_DIR") or place.home / ".pi" / "agent").expanduser()
    providers = _find_table(_read_json(agent / "models.json"), "providers")
    preferred = _find_text(_read_json(agent / "settings.json"), "defaultProvider") or ""
    urls, upstreams = {"openai": OPENAI_URL, "anthropic": ANTHROPIC_URL}, {OPENAI_URL: "", ANTHROPIC_URL: ""}
    own = _find_text(providers, preferred, "baseUrl")
    if own is not None and preferred not in urls:
        api = ANTHROPIC_URL if _find_text(providers, preferred, "api") == "anthropic-messages" else OPENAI_URL
        urls, upstreams[api] = {preferred: api}, own
    for name, url in urls.items():
        upstreams[url] = _find_text(providers, name, "baseUrl") or upstreams[url]
    lines = [f"  pi.registerProvider({json.dumps(name)}, {{ baseUrl: {json.dumps(url)} }});" for name, url in urls.items()]
    return Plan(
        arguments=("-e", f"{FOLDER}/{PI_EXTENSION}", *place.arguments),
        files={PI_EXTENSION: "\n".join(["export default function (pi: any) {", *lines, "}", ""])},
        openai_upstream=upstreams[OPENAI_URL] or place.find_variable("OPENAI_BASE_URL"),
        anthropic_upstream=upstreams[ANTHROPIC_URL] or place.find_variable("ANTHROPIC_BASE_URL"),
    )


def plan_qwen(place: Place) -> Plan:
    """Set the variables, which win over Qwen Code's settings; the URL in those is where requests went so far."""
    auth = _find_table(_read_json(place.home / ".qwen" / "settings.json"), "security", "auth")
    url = _find_text(auth, "baseUrl")
    is_anthropic = _find_text(auth, "selectedType") == "anthropic"
    plan = plan_variables(place)
    return replace(
        plan,
        openai_upstream=plan.openai_upstream or (None if is_anthropic else url),
        anthropic_upstream=plan.anthropic_upstream or (url if is_anthropic else None),
    )


CLINE_VARIABLE: Final = "CLINE_PROVIDER_SETTINGS_PATH"
CLINE_COPY: Final = "providers.json"
# Providers of Cline's that speak one of the two APIs. Its Anthropic client, too, takes a URL that ends in `/v1`.
CLINE_PROVIDERS: Final = ("anthropic", "openai-native", "openai")
CLINE_ADVICE: Final = "run `cline auth anthropic` or `cline auth openai-native` with a key first"


def plan_cline(place: Place) -> Plan:
    """Give Cline a copy of its own provider settings with the gateway in place of the provider's URL.

    Raises:
        CannotLaunch: Cline uses a provider whose URL cannot be set.
    """
    file = Path(place.environ.get(CLINE_VARIABLE) or _find_cline_data(place) / "settings" / "providers.json")
    settings = _read_json(file)
    providers = dict(_find_table(settings, "providers"))
    chosen = _find_option(place.arguments, "-P", "--provider") or _find_text(settings, "lastUsedProvider") or "cline"
    if chosen not in CLINE_PROVIDERS:
        raise CannotLaunch("Cline", reason=f"its provider {chosen!r} cannot be asked through a gateway; {CLINE_ADVICE}")
    if chosen not in providers:
        raise CannotLaunch("Cline", reason=f"it has no key for {chosen!r}; {CLINE_ADVICE}")
    upstream = _find_text(providers, chosen, "settings", "baseUrl")
    providers[chosen] = _merge(_find_table(providers, chosen), {"settings": {"baseUrl": OPENAI_URL}})
    return Plan(
        arguments=place.arguments,
        environment={CLINE_VARIABLE: f"{FOLDER}/{CLINE_COPY}"},
        files={CLINE_COPY: json.dumps({**settings, "providers": providers}, indent=2)},
        openai_upstream=upstream if chosen != "anthropic" else None,
        anthropic_upstream=upstream if chosen == "anthropic" else None,
    )


def _find_cline_data(place: Place) -> Path:
    data = _find_option(place.arguments, "--data-dir") or place.environ.get("CLINE_DATA_DIR")
    config = _find_option(place.arguments, "--config") or place.environ.get("CLINE_DIR")
    return Path(data) if data else Path(config or place.home / ".cline") / "data"


def _find_option(arguments: tuple[str, ...], *names: str) -> str | None:
    for word, following in pairwise((*arguments, "")):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else following or None
    return None


def plan_aider(place: Place) -> Plan:
    """Set LiteLLM's base URLs by flags: aider lets an `.env` file win over the environment."""
    flags = ("--openai-api-base", OPENAI_URL, "--set-env", f"ANTHROPIC_API_BASE={ANTHROPIC_URL}")
    return Plan(
        arguments=(*flags, *place.arguments),
        openai_upstream=place.find_variable("OPENAI_API_BASE", "OPENAI_BASE_URL"),
        anthropic_upstream=place.find_variable("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
    )


def plan_copilot(place: Place) -> Plan:
    """Put the gateway in place of the user's own provider.

    Raises:
        CannotLaunch: There is none: it asks GitHub's models, which have no base URL to set.
    """
    name = "COPILOT_PROVIDER_BASE_URL"
    upstream = place.find_variable(name)
    if upstream is None:
        raise CannotLaunch(
            "Copilot CLI", reason=f"it asks GitHub's own models; set {name}, COPILOT_PROVIDER_API_KEY and COPILOT_MODEL"
        )
    if place.environ.get("COPILOT_PROVIDER_TYPE") == "anthropic":
        return Plan(arguments=place.arguments, environment={name: ANTHROPIC_URL}, anthropic_upstream=upstream)
    return Plan(arguments=place.arguments, environment={name: OPENAI_URL}, openai_upstream=upstream)


def plan_gemini(place: Place) -> Plan:
    """Set the base URL. The gateway sends the requests to its setting `gemini_upstream`.

    Raises:
        CannotLaunch: It is not set to use an API key, and uses a base URL only with one.
    """
    if _find_text(_read_json(place.home / ".gemini" / "settings.json"), "security", "auth", "selectedType") != "gemini-api-key":
        raise CannotLaunch("Gemini CLI", reason="it uses a base URL only with an API key; choose that with /auth in it")
    return Plan(arguments=place.arguments, environment={"GOOGLE_GEMINI_BASE_URL": ANTHROPIC_URL})


def plan_grok(place: Place) -> Plan:
    """Set the base URL."""
    upstream = place.find_variable("GROK_BASE_URL") or "https://api.x.ai/v1"
    return Plan(arguments=place.arguments, environment={"GROK_BASE_URL": OPENAI_URL}, openai_upstream=upstream)


def _read_json(path: Path) -> Mapping[str, object]:
    """Return the object in a settings file, comments and trailing commas allowed; an empty one where it cannot be read."""
    try:
        return _parse_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, UneditableSettings):
        return {}


def _parse_json(text: str) -> Mapping[str, object]:
    return _find_table(read_settings(text, "jsonc"))


def _find_table(settings: object, *names: str) -> Mapping[str, object]:
    """Return the object below these names; an empty one where there is none."""
    for name in names:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings if isinstance(settings, Mapping) else {}


def _find_text(settings: object, *names: str) -> str | None:
    """Return the text below these names; None where there is none."""
    found = _find_table(settings, *names[:-1]).get(names[-1])
    return found if isinstance(found, str) and found else None


def _merge(lower: Mapping[str, object], upper: Mapping[str, object]) -> dict[str, Any]:
    """Return settings with others laid over them, objects within them too."""
    return {
        **lower,
        **{
            name: _merge(_find_table(lower, name), value) if isinstance(value, Mapping) else value
            for name, value in upper.items()
        },
    }


CLIENTS: Final[Mapping[str, Client]] = {
    "claude": Client(
        title="Claude Code", command="claude", install="npm install -g @anthropic-ai/claude-code", plan=plan_claude_code
    ),
    "codex": Client(title="Codex", command="codex", install="npm install -g @openai/codex", plan=plan_codex),
    "opencode": Client(title="opencode", command="opencode", install="npm install -g opencode-ai", plan=plan_opencode),
    "pi": Client(title="pi", command="pi", install="npm install -g @earendil-works/pi-coding-agent", plan=plan_pi),
    "qwen": Client(title="Qwen Code", command="qwen", install="npm install -g @qwen-code/qwen-code", plan=plan_qwen),
    "cline": Client(title="Cline", command="cline", install="npm install -g cline", plan=plan_cline),
    "aider": Client(title="aider", command="aider", install="uv tool install aider-chat", plan=plan_aider),
    "copilot": Client(title="Copilot CLI", command="copilot", install="npm install -g @github/copilot", plan=plan_copilot),
    "gemini": Client(title="Gemini CLI", command="gemini", install="npm install -g @google/gemini-cli", plan=plan_gemini),
    "grok": Client(title="Grok CLI", command="grok", install="npm install -g @vibe-kit/grok-cli", plan=plan_grok),
}
