"""Which messages only tell something: whatever might bind is never among them."""

from __future__ import annotations

import pytest

from threadkeep.compaction.passing import only_tells

DEMANDS = [
    "Never push to main.",
    "No deploys on the last day of the month.",
    "The tests come before the code.",
    "Every migration gets a way back.",
    "I would rather see the numbers first.",
    "Ask the warehouse if the code is in doubt.",
    "Use the staging server for this.",
    "The customer data stays where it is, only the finance people may see it.",
    "We agreed that the parser is frozen.",
    "The supplier is called Ría-Cabos & Hijos.",
    "The deadline is the third of May.",
    "The report goes to audit@ledgerhouse.example.",
    "Retry logic is capped at thirty seconds.",
    "The current branch is spike/lexer-22.",
    "Goal: the parser reads the old format.",
    "Can the parser read the old format?",
    "Please look at the log.",
    "The answer should be short.",
    "It is forbidden to touch the vendor folder.",
    "Make the button green.",
    "The work ends with the release of the lexer, nothing after that.",
    "Deploy freezes start with the fair.",
    "The build must not take the network for granted.",
]
ABROAD = [
    "Die Tests laufen vor dem Code.",
    "Los correos salen de la cuenta del almacén.",
    "Le serveur écoute sur la même machine.",
    "端口和以前一样。",
    "サーバーは同じです。",
    "Тесты идут до кода.",
    "Testene kommer for koden.",
    "De server draait op de oude machine.",
]
TOLD = [
    "Looked through the parser and the layout of its module.",
    "The first page was slow again this morning.",
    "Reviewing the layout of the ingestion module.",
    "The lexer looks nicer with the shorter names.",
]


@pytest.mark.parametrize("statement", [*DEMANDS, *ABROAD])
def test_what_might_bind_is_shown_in_words(statement: str) -> None:
    """A value, an order, a limit, a question, a wish, a label, or a language whose signs of a demand are not known."""
    assert not only_tells([statement])


@pytest.mark.parametrize("statement", TOLD)
def test_what_only_tells_may_be_shown_by_its_pointer(statement: str) -> None:
    """Plain English that asks nothing of anyone."""
    assert only_tells([statement])


def test_one_binding_statement_binds_its_message() -> None:
    """What stands around a demand may say what it means."""
    assert not only_tells([TOLD[0], DEMANDS[0]])
