"""Dockerfile, compose.yaml and their pins, as far as they can be read without Docker."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from threadkeep import Config

ROOT = Path(__file__).resolve().parents[2]


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions, each with its words."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(name, words) for name, _, words in (line.partition(" ") for line in lines if line.strip())]


def pins(name: str) -> dict[str, str]:
    """Return the versions of a file of pins; every pin must have a hash."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    hashed = re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+).*\\\n    --hash=sha256:", text, flags=re.MULTILINE)
    assert len(hashed) == len(re.findall(r"^[a-z0-9._-]+==", text, flags=re.MULTILINE))
    assert "://" not in text
    return dict(hashed)


def settings_in(environment: dict[str, str]) -> dict[str, str]:
    """Return the settings that an environment gives, each of which must be one."""
    known = {f"THREADKEEP_{field.name.upper()}" for field in fields(Config)}
    given = {name: value for name, value in environment.items() if name.startswith("THREADKEEP_")}
    assert given.keys() <= known
    return given


def test_every_file_it_copies_is_there_and_goes_to_the_builder() -> None:
    """Nothing is copied that .dockerignore keeps out."""
    kept = [line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [words.split()[:-1] for name, words in instructions() if name == "COPY" and not words.startswith("--from")]
    sources = [source for words in copied for source in words]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if not any(fnmatch(source, pattern) for pattern in kept)] == []


def test_everything_that_is_installed_is_pinned_with_hashes() -> None:
    """No command of pip resolves anything; the package itself comes without its dependencies."""
    commands = [part for name, words in instructions() if name == "RUN" for part in words.split("&&") if " pip " in part]
    assert [command for command in commands if "--no-deps" not in command] == []
    unpinned = [shlex.split(command)[-1] for command in commands if "--require-hashes" not in command]
    assert unpinned == ["."]


def test_the_image_s_pins_are_those_that_are_tested() -> None:
    """What runs everywhere, and the driver of PostgreSQL."""
    run, dev, server = pins("run.txt"), pins("dev.txt"), pins("server.txt")
    assert run.items() <= server.items()
    assert {"psycopg", "psycopg-binary", "psycopg-pool"} <= server.keys()
    assert {name: version for name, version in server.items() if dev.get(name, version) != version} == {}


def test_the_container_is_not_root_and_asks_for_keys() -> None:
    """It listens on every address, so a file of keys is set; the port and the volume are the ones it uses."""
    last = instructions()[[name for name, _ in instructions()].index("FROM", 2) :]
    known = {name: words for name, words in last if name != "RUN"}
    environment = dict(word.split("=", 1) for word in shlex.split(known["ENV"]))
    assert settings_in(environment) == {
        "THREADKEEP_STORE": "/data/threadkeep.db",
        "THREADKEEP_KEYS_FILE": "/data/keys.toml",
        "THREADKEEP_HOST": "0.0.0.0",
        "THREADKEEP_AUTO_COMPACT": "on",
    }
    assert (known["USER"], known["VOLUME"], known["EXPOSE"]) == ("threadkeep", "/data", str(Config().port))
    assert f"http://127.0.0.1:{Config().port}/healthz" in known["HEALTHCHECK"]


def test_compose_publishes_the_gateway_on_this_machine_alone() -> None:
    """PostgreSQL is published nowhere; the password is in no address and has no default."""
    yaml = pytest.importorskip("yaml")
    composed: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    gateway, database = composed["services"]["gateway"], composed["services"]["database"]
    assert gateway["ports"] == ["127.0.0.1:${THREADKEEP_PUBLISHED_PORT:-4621}:4621"]
    assert "ports" not in database
    assert settings_in(gateway["environment"]) == {"THREADKEEP_STORE": "postgresql://threadkeep@database/threadkeep"}
    password = "${THREADKEEP_DATABASE_PASSWORD:?set it in .env}"
    assert (gateway["environment"]["PGPASSWORD"], database["environment"]["POSTGRES_PASSWORD"]) == (password, password)
    mounted = {volume.partition(":")[0] for service in (gateway, database) for volume in service["volumes"]}
    assert mounted == set(composed["volumes"])
    assert gateway["depends_on"] == {"database": {"condition": "service_healthy"}}
