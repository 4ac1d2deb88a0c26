"""Settings: flags over `HOLDFAST_*` over the project's `holdfast.toml` over the user's; each value knows where it came from."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from holdfast.errors import BadInput

FILE_NAME = "holdfast.toml"
DEFAULT_STORE = "~/.local/share/holdfast/holdfast.db"
USER_FILE = "~/.config/holdfast/holdfast.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What can be set. Names follow Codex where it has one."""

    store: str = DEFAULT_STORE
    tenant: str = "local"
    model_context_window: int = 272_000
    model_auto_compact_token_limit: int | None = None
    auto_compact: str = "off"
    persistence: str = "extended"
    openai_upstream: str = "https://api.openai.com"
    host: str = "127.0.0.1"
    port: int = 4621


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One resolved value and where it came from."""

    name: str
    value: str | int | None
    origin: str


CHOICES = {"auto_compact": ("off", "on"), "persistence": ("limited", "extended")}
# Settings that are numbers, and their bounds.
NUMBERS = {
    "model_context_window": (1, 1_000_000_000),
    "model_auto_compact_token_limit": (1, 1_000_000_000),
    "port": (0, 65_535),
}


def resolve(
    *, flags: Mapping[str, str | int | None], environ: Mapping[str, str], project: Path, user: Path | None = None
) -> list[Setting]:
    """Return every setting, resolved.

    Raises:
        BadInput: A file cannot be read, or a value is of the wrong kind; the message names the file or variable.
    """
    defaults = Config()
    layers: list[tuple[str, Mapping[str, object]]] = [
        ("flag", {name: value for name, value in flags.items() if value is not None}),
        ("environment", _from_environment(environ)),
        (str(project / FILE_NAME), _from_file(project / FILE_NAME)),
    ]
    user_file = user if user is not None else Path(USER_FILE).expanduser()
    layers.append((str(user_file), _from_file(user_file)))
    settings: list[Setting] = []
    for field in fields(Config):
        origin, value = next(
            ((origin, values[field.name]) for origin, values in layers if field.name in values),
            ("default", getattr(defaults, field.name)),
        )
        settings.append(Setting(name=field.name, value=_checked(field.name, value, origin), origin=origin))
    return settings


def config_of(settings: list[Setting]) -> Config:
    """Return the settings as a value."""
    values: dict[str, object] = {setting.name: setting.value for setting in settings}
    return Config(**values)  # type: ignore[arg-type]  # _checked gave each value the type of its field


def _from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    names = {f"HOLDFAST_{field.name.upper()}": field.name for field in fields(Config)}
    return {names[variable]: value for variable, value in environ.items() if variable in names}


def _from_file(path: Path) -> Mapping[str, object]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    known = {field.name for field in fields(Config)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise BadInput(f"{path}: no setting is called {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return values


def _checked(name: str, value: object, origin: str) -> str | int | None:
    if value is None:
        return None
    if name in NUMBERS:
        return _number(name, value, origin)
    if not isinstance(value, str) or not value:
        raise BadInput(f"{name} ({origin}) must be a text, not {value!r}")
    if value not in CHOICES.get(name, (value,)):
        raise BadInput(f"{name} ({origin}) must be one of {', '.join(CHOICES[name])}, not {value!r}")
    return value


def _number(name: str, value: object, origin: str) -> int:
    low, high = NUMBERS[name]
    try:
        number = int(str(value))
    except ValueError:
        raise BadInput(f"{name} ({origin}) must be a whole number, not {value!r}") from None
    if not low <= number <= high:
        raise BadInput(f"{name} ({origin}) must be between {low} and {high}, not {value!r}")
    return number
