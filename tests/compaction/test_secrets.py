"""Credentials are named in the state and not repeated there."""

from __future__ import annotations

import pytest

from threadkeep.compaction.ledger import Ledger, Section, Speaker
from threadkeep.compaction.merge import merge
from threadkeep.compaction.operations import Add
from threadkeep.compaction.secrets import masked
from threadkeep.compaction.state_text import render_state
from threadkeep.thread import Pointer

SECRETS = [
    "sk-" + "a1B2" * 8,
    "AKIA" + "ABCDEFGH12345678",
    "ghp_" + "x" * 36,
    "eyJhbGciOiJIUzI1" + ".eyJzdWIiOiIxMjM0" + ".c2lnbmF0dXJlMTIz",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_credential_a_user_pasted_is_masked_in_the_state(secret: str) -> None:
    """The rule stays, the value does not; its record still has it."""
    said = Add(section=Section.ACTIVE, text=f"Use {secret} for staging.", source=Pointer("t", 4), speaker=Speaker.USER)
    ledger = merge(Ledger(), [said], spoken={said.source: said.text})
    shown = render_state(ledger)
    assert secret not in shown
    assert "Use " in shown
    assert "(#4)" in shown
    assert ledger.entries[0].text == f"Use {secret} for staging."


def test_a_password_in_a_url_is_masked_and_its_host_is_not() -> None:
    """What the work needs to know stays readable."""
    text = masked("postgresql://admin:hunter2secret@db.example/main")
    assert "hunter2secret" not in text
    assert text.endswith("@db.example/main")


@pytest.mark.parametrize("named", ["the password is {}", "Password: {}", "api key = '{}'", "its passphrase is `{}`, keep it"])
def test_what_is_called_a_password_is_masked(named: str) -> None:
    """Whatever it looks like, as long as it has a figure in it; masking it again changes nothing."""
    text = masked(named.format("hunter2-Very-Secret"))
    assert text == named.format("hunt…[secret, 19 characters]")
    assert masked(text) == text


ORDINARY = [
    "Use port 8080.",
    "risk-assessment-of-the-plan",
    "commit 918ec5927e",
    "task-1234 is done",
    "The token is expired already.",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_words_are_left_alone(text: str) -> None:
    """A mask on what is no secret would hide a rule."""
    assert masked(text) == text
