"""`threadkeep key` makes a key, shows it once, and keeps its digest."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from threadkeep.gateway.http.keys import KeysFile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.stories import Cli


def test_a_key_opens_its_tenant(cli: Cli, home: Path) -> None:
    """The keys that were printed are those the file knows; the file itself holds none, and belongs to its owner alone."""
    file = home / "keys.toml"
    made = [cli("key", tenant, "--keys", file, "--json").json for tenant in ("alice", "bob", "alice")]
    keys = KeysFile(file)
    assert [keys.tenant_of(each["key"]) for each in made] == ["alice", "bob", "alice"]
    assert [each["key"] in file.read_text() for each in made] == [False, False, False]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_person_is_told_what_to_do_with_it(cli: Cli, home: Path) -> None:
    """The key comes first, on a line of its own."""
    ran = cli("key", "alice", "--keys", home / "keys.toml")
    key = ran.out.splitlines()[0]
    assert (ran.code, KeysFile(home / "keys.toml").tenant_of(key), "X-Threadkeep-Key" in ran.out) == (0, "alice", True)


@pytest.mark.parametrize("tenant", ["", "a b", 'x"\n"y', "-x"])
def test_a_name_that_cannot_be_a_tenant_is_refused(cli: Cli, home: Path, tenant: str) -> None:
    """Nothing is written."""
    ran = cli("key", "--keys", home / "keys.toml", "--", tenant)
    assert (ran.code, (home / "keys.toml").exists()) == (1, False)


def test_another_file_is_left_alone(cli: Cli, home: Path) -> None:
    """A file that is not one of keys is not written to."""
    file = home / "notes.toml"
    file.write_text("port = 1\n")
    assert (cli("key", "alice", "--keys", file).code, file.read_text()) == (1, "port = 1\n")


def test_the_file_must_be_named(cli: Cli) -> None:
    """Without a file there is nowhere to keep the digest, so that no key is made."""
    ran = cli("key", "alice")
    assert (ran.code, ran.out, "--keys FILE" in ran.err) == (1, "", True)
