"""Credentials are named in the state and not repeated there."""

from __future__ import annotations

import pytest
from tests.histories import RESPONSES, Rollout, answered, said, turns, views

from threadkeep.compaction.engine import NO_DRAFT, conclude, propose
from threadkeep.compaction.ledger import Speaker
from threadkeep.compaction.secrets import mask_secrets
from threadkeep.compaction.strategies.strategy import Goal

SECRETS = [
    "sk-" + "a1B2" * 8,
    "AKIA" + "ABCDEFGH12345678",
    "ghp_" + "x" * 36,
    "eyJhbGciOiJIUzI1" + ".eyJzdWIiOiIxMjM0" + ".c2lnbmF0dXJlMTIz",
]


@pytest.mark.parametrize("user_tokens", [0, 20_000])
@pytest.mark.parametrize("secret", SECRETS)
def test_a_credential_is_masked_in_the_state_and_behind_it(secret: str, user_tokens: int) -> None:
    """What people and the agent said of it stays, the value does not; its record still has it."""
    items = [said("Build it."), answered(f"The key_1 failed because it is {secret} now."), said(f"Use {secret} for staging.")]
    rollout = Rollout([*items, answered("Good."), *turns(1, 40)])
    proposal = propose(rollout.history(), thread_id="t", dialect=RESPONSES, tip=rollout.tip, goal=Goal(user_tokens=user_tokens))
    outcome = conclude(proposal, NO_DRAFT)
    rollout.checkpoint, rollout.compacted_at = outcome.checkpoint, rollout.tip.next - 1
    shown = "\n".join(view.text for view in views(rollout.history()))
    assert secret not in shown
    assert f"Use {mask_secrets(secret)} for staging." in shown
    assert f"Use {secret} for staging." in [entry.text for entry in outcome.ledger.entries if entry.speaker is Speaker.USER]


def test_a_password_in_a_url_is_masked_and_its_host_is_not() -> None:
    """What the work needs to know stays readable."""
    text = mask_secrets("postgresql://admin:hunter2secret@db.example/main")
    assert "hunter2secret" not in text
    assert text.endswith("@db.example/main")


@pytest.mark.parametrize("named", ["the password is {}", "Password: {}", "api key = '{}'", "its passphrase is `{}`, keep it"])
def test_what_is_called_a_password_is_masked(named: str) -> None:
    """Whatever it looks like, as long as it has a figure in it; masking it again changes nothing."""
    text = mask_secrets(named.format("hunter2-Very-Secret"))
    assert text == named.format("hunt…[secret, 19 characters]")
    assert mask_secrets(text) == text


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
    assert mask_secrets(text) == text
