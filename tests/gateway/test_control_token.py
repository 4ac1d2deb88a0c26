"""The control API's token is made once, kept beside the store, and readable by its owner alone."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from threadkeep.errors import CannotKeepToken
from threadkeep.gateway.control.identity import find_token_file, load_token

if TYPE_CHECKING:
    from pathlib import Path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_token_is_made_once_for_its_owner(tmp_path: Path) -> None:
    """Gateways that share a store share its token; two stores have two."""
    store = tmp_path / "folder" / "agent.db"
    token = load_token(store)
    assert (load_token(store), mode(find_token_file(store)), len(token) >= 32) == (token, 0o600, True)
    assert load_token(tmp_path / "other.db") != token


@pytest.mark.parametrize("spoiled", ["short", "", "not a token at all, whatever its length may be ......."])
def test_what_is_no_token_is_replaced(tmp_path: Path, spoiled: str) -> None:
    """A file that holds something else opens nothing."""
    store = tmp_path / "agent.db"
    find_token_file(store).write_text(spoiled)
    find_token_file(store).chmod(0o600)
    assert load_token(store) == find_token_file(store).read_text().strip() != spoiled


def test_a_token_others_could_read_is_replaced(tmp_path: Path) -> None:
    """Who may have seen it may not use it."""
    store = tmp_path / "agent.db"
    seen = load_token(store)
    find_token_file(store).chmod(0o644)
    assert load_token(store) != seen
    assert mode(find_token_file(store)) == 0o600


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A token is never read from where a link leads."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("a" * 40)
    elsewhere.chmod(0o600)
    store = tmp_path / "agent.db"
    find_token_file(store).symlink_to(elsewhere)
    with pytest.raises(CannotKeepToken):
        load_token(store)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The error says which file and what else can be done."""
    (tmp_path / "file").write_text("")
    store = tmp_path / "file" / "agent.db"
    with pytest.raises(CannotKeepToken, match="THREADKEEP_CONTROL_TOKEN"):
        load_token(store)
