"""Settings: which layer wins, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadkeep.client import Config, Setting, build_config, resolve
from threadkeep.compaction.strategies import STRATEGIES
from threadkeep.config import USERS_ALONE
from threadkeep.errors import BadInput


def resolved(
    tmp_path: Path, *, project: str = "", user: str = "", environ: dict[str, str] | None = None, **flags: str | int | None
) -> dict[str, Setting]:
    home = tmp_path / "user.toml"
    (tmp_path / "threadkeep.toml").write_text(project, encoding="utf-8")
    home.write_text(user, encoding="utf-8")
    settings = resolve(flags=flags, environ=environ or {}, project=tmp_path, user=home)
    return {setting.name: setting for setting in settings}


def test_without_anything_set_the_defaults_hold(tmp_path: Path) -> None:
    """And every setting is there, with its origin."""
    settings = resolve(flags={}, environ={}, project=tmp_path, user=tmp_path / "none.toml")
    assert build_config(settings) == Config()
    assert {setting.origin for setting in settings} == {"default"}


def test_flags_win_over_the_environment_over_the_project_over_the_user(tmp_path: Path) -> None:
    """Each layer gives way to the one above it, and each value says where it came from."""
    names = ("model_context_window", "compact_timeout_s", "port", "host")
    user = 'model_context_window = 1\ncompact_timeout_s = 1\nport = 1\nhost = "u"'
    project = "model_context_window = 2\ncompact_timeout_s = 2\nport = 2"
    environ = {"THREADKEEP_MODEL_CONTEXT_WINDOW": "3", "THREADKEEP_COMPACT_TIMEOUT_S": "3"}
    found = resolved(tmp_path, user=user, project=project, environ=environ, model_context_window=4)
    assert {name: (found[name].value, found[name].origin) for name in names} == {
        "model_context_window": (4, "flag"),
        "compact_timeout_s": (3, "environment"),
        "port": (2, str(tmp_path / "threadkeep.toml")),
        "host": ("u", str(tmp_path / "user.toml")),
    }


def test_a_flag_that_was_not_given_does_not_count(tmp_path: Path) -> None:
    """None is the absence of a flag."""
    assert resolved(tmp_path, environ={"THREADKEEP_PORT": "5"}, port=None)["port"].value == 5


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"THREADKEEP_PORT": "many"}, "port"),
        ({"THREADKEEP_PORT": ""}, "port"),
        ({"THREADKEEP_PORT": "-1"}, "port"),
        ({"THREADKEEP_PORT": "65536"}, "port"),
        ({"THREADKEEP_MODEL_CONTEXT_WINDOW": "0"}, "model_context_window"),
        ({"THREADKEEP_MODEL_AUTO_COMPACT_TOKEN_LIMIT": "-5"}, "model_auto_compact_token_limit"),
        ({"THREADKEEP_AUTO_COMPACT": "maybe"}, "auto_compact"),
        ({"THREADKEEP_STORE": ""}, "store"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_name(tmp_path: Path, environ: dict[str, str], named: str) -> None:
    """The error names the setting and says that it came from the environment."""
    with pytest.raises(BadInput, match=f"{named}.*environment"):
        resolved(tmp_path, environ=environ)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("port = true", "port"),
        ("port = 1.5", "port"),
        ("compact_prompt = 5", "compact_prompt"),
        ('compact_prompt = ["a"]', "compact_prompt"),
        ("stroe = 'x'", "stroe"),
        ("not toml", "threadkeep.toml"),
    ],
)
def test_a_file_with_a_mistake_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    """The file, and what is wrong in it."""
    with pytest.raises(BadInput, match=named):
        resolved(tmp_path, project=text)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """Bytes that no editor wrote are an error of one sentence."""
    (tmp_path / "threadkeep.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="cannot be read"):
        resolve(flags={}, environ={}, project=tmp_path, user=tmp_path / "none.toml")


def test_a_projects_file_names_no_hooks(tmp_path: Path) -> None:
    """Whoever opens a folder that came from elsewhere runs none of its commands; the error says where hooks belong."""
    with pytest.raises(BadInput) as raised:
        resolved(tmp_path, project='[[hooks.PreCompact]]\nhooks = [{type = "command", command = "curl evil"}]\n')
    assert str(raised.value) == (
        f"{tmp_path / 'threadkeep.toml'}: 'hooks' runs commands, and a folder may come from elsewhere; "
        "move it to your own ~/.config/threadkeep/threadkeep.toml"
    )


@pytest.mark.parametrize("name", sorted(set(USERS_ALONE) - {"hooks"}))
@pytest.mark.parametrize("above", ["", "[profiles.night]\n"])
def test_a_projects_file_says_nothing_that_is_the_users_alone(tmp_path: Path, name: str, above: str) -> None:
    """Not who is sent keys and transcripts, where threads are, nor who is let in; the error names it and where it belongs."""
    with pytest.raises(BadInput) as raised:
        resolved(tmp_path, project=f'{above}{name} = "http://elsewhere.example"\n')
    told = str(raised.value)
    assert told.startswith(f"{tmp_path / 'threadkeep.toml'}: {name!r} ")
    assert f"~/.config/threadkeep/threadkeep.toml, set THREADKEEP_{name.upper()}, or use a flag where the command has one" in told


@pytest.mark.parametrize("name", ["openai_upstream", "compact_model", "store", "keys_file", "host", "hooks"])
def test_what_names_addresses_files_and_commands_is_the_users_alone(name: str) -> None:
    """The list holds what a hostile folder would set first."""
    assert name in USERS_ALONE


def test_a_projects_file_chooses_no_profile_that_says_what_is_the_users_alone(tmp_path: Path) -> None:
    """Which of the user's own addresses is used is the user's to say; any other profile of theirs may be chosen."""
    user = '[profiles.work]\nopenai_upstream = "http://127.0.0.1:9"\n[profiles.small]\nmodel_context_window = 9\n'
    with pytest.raises(
        BadInput, match=r"profile 'work' of .*user\.toml sets 'openai_upstream'.* choose it by THREADKEEP_PROFILE"
    ):
        resolved(tmp_path, project='profile = "work"', user=user)
    assert resolved(tmp_path, project='profile = "small"', user=user)["model_context_window"].value == 9
    assert resolved(tmp_path, user=user, profile="work")["openai_upstream"].value == "http://127.0.0.1:9"


def test_the_users_own_files_say_anything(tmp_path: Path) -> None:
    """Their own file, also for who works in its folder, and that of a host which is theirs."""
    own = 'openai_upstream = "http://127.0.0.1:9"\n'
    (tmp_path / "threadkeep.toml").write_text(own)
    found = [
        resolve(flags={}, environ={}, project=tmp_path, user=tmp_path / "threadkeep.toml"),
        resolve(flags={}, environ={}, project=None, host=tmp_path, user=tmp_path / "none.toml"),
    ]
    assert [build_config(settings).openai_upstream for settings in found] == ["http://127.0.0.1:9"] * 2


def test_a_profile_stands_between_this_run_and_the_files(tmp_path: Path) -> None:
    """Flags and variables outweigh the profile, the profile outweighs the rest of the files."""
    file = tmp_path / "threadkeep.toml"
    file.write_text(
        'profile = "night"\ncompact_strategy = "extractive"\nport = 1\n'
        '[profiles.night]\ncompact_strategy = "handoff"\nport = 2\n[profiles.day]\nport = 3\n'
    )

    def resolved(flags: dict[str, str | int | None]) -> tuple[str, int]:
        config = build_config(resolve(flags=flags, environ={}, project=tmp_path, user=tmp_path / "none.toml"))
        return config.compact_strategy, config.port

    assert resolved({}) == ("handoff", 2)
    assert resolved({"port": 9}) == ("handoff", 9)
    assert resolved({"profile": "day"}) == ("extractive", 3)
    with pytest.raises(BadInput, match=r"no threadkeep\.toml has a profile called 'dusk'"):
        resolved({"profile": "dusk"})


def test_windows_of_models_are_numbers(tmp_path: Path) -> None:
    """A table of windows is checked entry by entry."""
    file = tmp_path / "threadkeep.toml"
    file.write_text("[model_windows]\nmini = 4000\n")
    config = build_config(resolve(flags={}, environ={}, project=tmp_path, user=tmp_path / "none.toml"))
    assert config.model_windows == {"mini": 4000}
    file.write_text('[model_windows]\nmini = "large"\n')
    with pytest.raises(BadInput, match=r"model_windows\.mini"):
        resolve(flags={}, environ={}, project=tmp_path, user=tmp_path / "none.toml")


def test_every_strategy_can_be_configured(tmp_path: Path) -> None:
    """A strategy that is registered is a value of the setting."""
    for name in ("default", *STRATEGIES):
        assert build_config(resolve(flags={"compact_strategy": name}, environ={}, project=tmp_path)).compact_strategy == name
    with pytest.raises(BadInput, match=r"compact_strategy .* must be one of default, session, handoff, remote, extractive"):
        resolve(flags={"compact_strategy": "magic"}, environ={}, project=tmp_path)
