"""What each client is given: arguments, variables and files, from what the user has set up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from threadkeep.cli.commands import CLIENT_NAMES
from threadkeep.errors import CannotLaunch
from threadkeep.launch.clients import CLIENTS, plan_variables
from threadkeep.launch.plan import Place, Plan, Start, fill_plan

URL = "http://127.0.0.1:4999/run/0123456789abcdef"
FOLDER = Path("/folder-of-the-run")


def place(tmp_path: Path, *arguments: str, files: Mapping[str, str] | None = None, **environ: str) -> Place:
    """Return a home with these files, a folder to work in, and a program that is never run."""
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir(parents=True, exist_ok=True)
    for name, text in (files or {}).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Place(environ=environ, home=home, folder=work, program="/bin/false", arguments=arguments)


def started(plan: Plan, at: Place) -> Start:
    return fill_plan(plan, at, url=URL, folder=FOLDER)


def upstreams(plan: Plan) -> tuple[str | None, str | None]:
    return plan.openai_upstream, plan.anthropic_upstream


def test_the_command_line_knows_the_clients_by_name() -> None:
    """The parser lists the names without loading the table; both are the same."""
    assert tuple(CLIENTS) == CLIENT_NAMES


def test_any_program_gets_both_base_urls(tmp_path: Path) -> None:
    """Its own variables stay, a proxy is not asked for the gateway, and the URLs from before are the upstreams."""
    at = place(
        tmp_path, "agent.py", "--fast", OPENAI_BASE_URL="http://a/v1", ANTHROPIC_BASE_URL="http://b", MINE="1", NO_PROXY="intra"
    )
    plan = plan_variables(at)
    assert upstreams(plan) == ("http://a/v1", "http://b")
    start = started(plan, at)
    assert start.words == ("/bin/false", "agent.py", "--fast")
    assert start.environment == {
        "OPENAI_BASE_URL": f"{URL}/v1",
        "OPENAI_API_BASE": f"{URL}/v1",
        "ANTHROPIC_BASE_URL": URL,
        "MINE": "1",
        "NO_PROXY": "intra,127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def test_claude_code_gets_its_base_url_and_keeps_what_it_does_with_anthropic(tmp_path: Path) -> None:
    at = place(tmp_path, "-p", "hello")
    start = started(CLIENTS["claude"].plan(at), at)
    assert start.words == ("/bin/false", "-p", "hello")
    assert {name: start.environment.get(name) for name in ("ANTHROPIC_BASE_URL", "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL")} == {
        "ANTHROPIC_BASE_URL": URL,
        "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1",
    }


def test_claude_code_s_settings_cannot_lead_past_the_gateway(tmp_path: Path) -> None:
    """Its settings win over variables. The user's own URL is the upstream; one of the folder worked in is no one's to ask."""
    files = {
        "home/.claude/settings.json": '{"env": {"ANTHROPIC_BASE_URL": "https://relay.example"}}',
        "work/.claude/settings.local.json": '{"env": {"ANTHROPIC_BASE_URL": "https://stranger.example"}}',
    }
    at = place(tmp_path, "--settings", '{"model": "opus", "env": {"A": "1"}}', "-p", "hello", files=files)
    plan = CLIENTS["claude"].plan(at)
    assert upstreams(plan) == (None, "https://relay.example")
    assert [note.partition(" is not used")[1] for note in plan.notes] == [" is not used"]
    start = started(plan, at)
    assert start.words[1] == "--settings"
    assert json.loads(start.words[2]) == {"model": "opus", "env": {"A": "1", "ANTHROPIC_BASE_URL": URL}}
    assert start.words[3:] == ("-p", "hello")
    assert "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL" not in start.environment


def test_claude_code_in_another_cloud_is_not_started(tmp_path: Path) -> None:
    with pytest.raises(CannotLaunch, match="CLAUDE_CODE_USE_BEDROCK"):
        CLIENTS["claude"].plan(place(tmp_path, CLAUDE_CODE_USE_BEDROCK="1"))


def program(folder: Path, text: str) -> str:
    """Write a program that stands for a client, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "client"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def codex(tmp_path: Path, login: str, *, config: str = "", **environ: str) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan for a Codex that says `login` about itself, and the words it is started with."""
    at = place(tmp_path, "exec", "hi", files={"home/.codex/config.toml": config}, **environ)
    at = Place(
        environ=at.environ, home=at.home, folder=at.folder, arguments=at.arguments, program=program(tmp_path / "bin", login)
    )
    plan = CLIENTS["codex"].plan(at)
    return plan, started(plan, at).words[1:]


def test_codex_with_a_key_in_the_environment(tmp_path: Path) -> None:
    """Its built-in provider does not read the key, so it gets one that does, with WebSocket as the built-in one has it."""
    plan, words = codex(tmp_path, "exit 1", OPENAI_API_KEY="sk-1")
    assert words == (
        *("-c", 'model_provider="threadkeep"'),
        *("-c", 'model_providers.threadkeep.name="threadkeep"'),
        *("-c", f'model_providers.threadkeep.base_url="{URL}/v1"'),
        *("-c", 'model_providers.threadkeep.env_key="OPENAI_API_KEY"'),
        *("-c", 'model_providers.threadkeep.wire_api="responses"'),
        *("-c", "model_providers.threadkeep.supports_websockets=true"),
        *("exec", "hi"),
    )
    assert upstreams(plan) == (None, None)


@pytest.mark.parametrize(
    ("login", "upstream"),
    [
        ("echo API key configured - sk-***", None),
        ("echo Logged in using ChatGPT >&2", "https://chatgpt.com/backend-api/codex"),
    ],
)
def test_codex_with_a_login_keeps_its_own_provider(tmp_path: Path, login: str, upstream: str | None) -> None:
    plan, words = codex(tmp_path, login)
    assert words == ("-c", f'openai_base_url="{URL}/v1"', "exec", "hi")
    assert upstreams(plan) == (upstream, None)


def test_codex_with_a_provider_of_the_user_s(tmp_path: Path) -> None:
    """Only its address changes; what it was is the upstream, and whether it has WebSocket is the user's to say."""
    config = 'model_provider = "mine"\n[model_providers.mine]\nbase_url = "http://10.0.0.1/v1"\nenv_key = "MY_KEY"\n'
    plan, words = codex(tmp_path, "exit 1", config=config)
    assert words == ("-c", f'model_providers.mine.base_url="{URL}/v1"', "exec", "hi")
    assert upstreams(plan) == ("http://10.0.0.1/v1", None)


@pytest.mark.parametrize(
    ("config", "why"), [("", "neither|no login and OPENAI_API_KEY is not set"), ('model_provider = "ollama"\n', "'ollama'")]
)
def test_codex_that_cannot_be_served_is_not_started(tmp_path: Path, config: str, why: str) -> None:
    with pytest.raises(CannotLaunch, match=why):
        codex(tmp_path, "exit 1", config=config)


def test_opencode_s_own_settings_are_merged(tmp_path: Path) -> None:
    """What the variable held stays; the user's URLs are the upstreams."""
    files = {
        "home/.config/opencode/opencode.jsonc": """{
            // a relay of mine
            "provider": {"openai": {"options": {"baseURL": "https://relay.example/v1"}},},
        }"""
    }
    given = '{"theme": "x", "provider": {"openai": {"options": {"timeout": 5}}}}'
    at = place(tmp_path, "run", files=files, OPENCODE_CONFIG_CONTENT=given)
    plan = CLIENTS["opencode"].plan(at)
    assert upstreams(plan) == ("https://relay.example/v1", None)
    assert json.loads(started(plan, at).environment["OPENCODE_CONFIG_CONTENT"]) == {
        "theme": "x",
        "provider": {
            "openai": {"options": {"timeout": 5, "baseURL": f"{URL}/v1"}},
            "anthropic": {"options": {"baseURL": f"{URL}/v1"}},
        },
    }


def test_opencode_with_a_provider_of_the_user_s(tmp_path: Path) -> None:
    """The provider of the user's model is asked; another that would lead elsewhere on the same wire is left alone."""
    files = {
        "home/.config/opencode/opencode.json": json.dumps(
            {
                "model": "mine/m",
                "provider": {
                    "mine": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "http://10.0.0.1/v1"}},
                    "openai": {"options": {"baseURL": "https://relay.example/v1"}},
                },
            }
        )
    }
    at = place(tmp_path, "run", files=files)
    plan = CLIENTS["opencode"].plan(at)
    assert upstreams(plan) == ("http://10.0.0.1/v1", None)
    chosen = json.loads(started(plan, at).environment["OPENCODE_CONFIG_CONTENT"])["provider"]
    assert chosen == {"mine": {"options": {"baseURL": f"{URL}/v1"}}, "anthropic": {"options": {"baseURL": f"{URL}/v1"}}}


def test_pi_loads_an_extension_for_this_run(tmp_path: Path) -> None:
    files = {"home/.pi/agent/models.json": '{"providers": {"anthropic": {"baseUrl": "https://relay.example"}}}'}
    at = place(tmp_path, "-p", "hello", files=files)
    plan = CLIENTS["pi"].plan(at)
    assert upstreams(plan) == (None, "https://relay.example")
    start = started(plan, at)
    assert start.words == ("/bin/false", "-e", "/folder-of-the-run/threadkeep.ts", "-p", "hello")
    assert start.files == {
        "threadkeep.ts": "export default function (pi: any) {\n"
        f'  pi.registerProvider("openai", {{ baseUrl: "{URL}/v1" }});\n'
        f'  pi.registerProvider("anthropic", {{ baseUrl: "{URL}" }});\n'
        "}\n"
    }


def test_pi_s_own_commands_are_left_alone(tmp_path: Path) -> None:
    at = place(tmp_path, "list")
    assert started(CLIENTS["pi"].plan(at), at).words == ("/bin/false", "list")


def test_qwen_code_s_settings_name_the_upstream(tmp_path: Path) -> None:
    files = {"home/.qwen/settings.json": '{"security": {"auth": {"baseUrl": "https://models.example/v1"}}}'}
    plan = CLIENTS["qwen"].plan(place(tmp_path, files=files))
    assert upstreams(plan) == ("https://models.example/v1", None)


CLINE = {
    "lastUsedProvider": "anthropic",
    "providers": {
        "anthropic": {"settings": {"provider": "anthropic", "apiKey": "sk-a", "baseUrl": "https://relay.example/v1"}, "t": 1}
    },
}


def test_cline_gets_a_copy_of_its_providers(tmp_path: Path) -> None:
    at = place(tmp_path, "do it", files={"home/.cline/data/settings/providers.json": json.dumps(CLINE)})
    plan = CLIENTS["cline"].plan(at)
    assert upstreams(plan) == (None, "https://relay.example/v1")
    start = started(plan, at)
    assert start.environment["CLINE_PROVIDER_SETTINGS_PATH"] == "/folder-of-the-run/providers.json"
    copied = json.loads(start.files["providers.json"])
    assert copied["providers"] == {
        "anthropic": {"settings": {"provider": "anthropic", "apiKey": "sk-a", "baseUrl": f"{URL}/v1"}, "t": 1}
    }
    assert "sk-a" not in repr(plan) + repr(start)


@pytest.mark.parametrize(("words", "why"), [((), "'cline'"), (("-P", "openai-native"), "no key for 'openai-native'")])
def test_cline_without_a_provider_to_ask_is_not_started(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    with pytest.raises(CannotLaunch, match=why):
        CLIENTS["cline"].plan(place(tmp_path, *words))


def test_aider_is_told_by_flags(tmp_path: Path) -> None:
    at = place(tmp_path, "--message", "hi", OPENAI_API_BASE="http://a/v1")
    plan = CLIENTS["aider"].plan(at)
    assert upstreams(plan) == ("http://a/v1", None)
    assert started(plan, at).words[1:] == (
        *("--openai-api-base", f"{URL}/v1", "--set-env", f"ANTHROPIC_API_BASE={URL}"),
        *("--message", "hi"),
    )


@pytest.mark.parametrize(
    ("name", "variable", "own", "expected", "url"),
    [
        (
            "copilot",
            "COPILOT_PROVIDER_BASE_URL",
            {"COPILOT_PROVIDER_BASE_URL": "http://a/v1"},
            ("http://a/v1", None),
            f"{URL}/v1",
        ),
        (
            "copilot",
            "COPILOT_PROVIDER_BASE_URL",
            {"COPILOT_PROVIDER_BASE_URL": "http://a", "COPILOT_PROVIDER_TYPE": "anthropic"},
            (None, "http://a"),
            URL,
        ),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", {}, (None, None), URL),
        ("grok", "GROK_BASE_URL", {}, ("https://api.x.ai/v1", None), f"{URL}/v1"),
    ],
)
def test_one_variable_points_a_client_at_the_gateway(
    tmp_path: Path, name: str, variable: str, own: dict[str, str], expected: tuple[str | None, str | None], url: str
) -> None:
    files = {"home/.gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'}
    at = place(tmp_path, "-p", "hello", files=files, **own)
    plan = CLIENTS[name].plan(at)
    assert upstreams(plan) == expected
    start = started(plan, at)
    assert (start.words[1:], start.environment[variable]) == (("-p", "hello"), url)


@pytest.mark.parametrize(("name", "why"), [("copilot", "GitHub's own models"), ("gemini", "only with an API key")])
def test_a_client_that_would_not_use_the_url_is_not_started(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(CannotLaunch, match=why):
        CLIENTS[name].plan(place(tmp_path))


def test_settings_may_have_comments(tmp_path: Path) -> None:
    """Comments and trailing commas go; what looks like one inside a string stays."""
    text = '{"url": "http://a//b", /* so */ "list": ["x, ]", "//",], // end\n "n": 1,}'
    at = place(tmp_path, OPENCODE_CONFIG_CONTENT=text)
    content = json.loads(started(CLIENTS["opencode"].plan(at), at).environment["OPENCODE_CONFIG_CONTENT"])
    assert {name: content[name] for name in ("url", "list", "n")} == {"url": "http://a//b", "list": ["x, ]", "//"], "n": 1}
