"""Which later statement speaks about an earlier one. A wrong tie hides a user's rule."""

from __future__ import annotations

import pytest

from threadkeep.compaction.ties import Tie, tie

CORRECTIONS = [
    ("Use port 8080 for staging.", "Actually, use port 9090 for staging instead of 8080."),
    ("The version is 1.2.3.", "The version is not 1.2.3 but 1.2.4."),
    ("Write the report to docs/report.md.", "The report now goes to docs/final.md instead of docs/report.md."),
    ("Der Server läuft auf Port 8080.", "Der Server läuft jetzt auf Port 9090."),
    ("El servidor usa el puerto 8080.", "El servidor ya no usa el puerto 8080, ahora usa 9090."),
    ("Le serveur écoute sur le port 8080.", "Le serveur écoute désormais sur le port 9090."),
    ("服务器的端口是 8080。", "端口改为 9090，不再用 8080。"),
    ("服务器的端口是8080。", "服务器的端口改为9090。"),
    ("サーバーのポートは8080です。", "サーバーのポートは9090に変更します。"),
    ("Write the docs in English.", "Write the docs in German instead of English."),
    ("Deploy the service to Dublin.", "Actually, deploy the service to Frankfurt instead of Dublin."),
    ("Always deploy on Fridays.", "Never deploy on Fridays."),
    ("Use port 8080 for staging.", "Do not use port 8080 for staging."),
    ("Answer every question in French.", "From now on, answer every question in Dutch."),
    ("The review belongs to Ada Weiss.", "The review moved to Kim Braun."),
]


@pytest.mark.parametrize(("older", "newer"), CORRECTIONS)
def test_a_correction_is_tied_to_what_it_corrects(older: str, newer: str) -> None:
    """The older statement is set aside, or both stand side by side; it never stays as if nothing was said."""
    assert tie(older, newer) is not Tie.NONE


RESTATED = [
    ("The staging port is 8080.", "The staging port is 9090."),
    ("Note: the release date is 2031-04-02 for all teams.", "Note: the release date is 2031-05-09 for all teams."),
    ("Der Port der Testumgebung ist 8080.", "Der Port der Testumgebung ist 9090."),
]


@pytest.mark.parametrize(("older", "newer"), RESTATED)
def test_the_same_said_again_with_another_value_replaces(older: str, newer: str) -> None:
    """Word for word the same of one thing, but for what it is: the later telling leaves nothing of the older out."""
    assert tie(older, newer) is Tie.REPLACES


LABELLED = [
    ("RULE: Never disclose the code abc-12.", "RULE: Never send private data without consent from Ada Weiss."),
    ("User preference: answers in French.", "User preference: the contact code is XK-86."),
]


@pytest.mark.parametrize(("older", "newer"), LABELLED)
def test_a_shared_label_is_no_tie(older: str, newer: str) -> None:
    """Two statements of one kind are not about one thing."""
    assert tie(older, newer) is Tie.NONE


WITHDRAWALS = [
    ("Mirror the dashboards to the archive bucket.", "Forget mirroring the dashboards to the archive bucket."),
    ("Send a summary to `ops-weekly` every Monday.", "Never mind the summary to `ops-weekly`."),
    ("每周一发送报告到 `ops`。", "不用再发送报告到 `ops` 了。"),
]


@pytest.mark.parametrize(("older", "newer"), WITHDRAWALS)
def test_a_withdrawal_contests_and_never_hides(older: str, newer: str) -> None:
    """Which of the two holds is for the model to read, with both in view."""
    assert tie(older, newer) is Tie.RELATED


UNTOUCHED = [
    ("Use port 8080 for staging.", "Do not use port 9090 instead of port 8080 for staging."),
    ("One allowed host is `a.example`.", "One allowed host is `b.example`."),
    ("Ein Prüfer ist Ada Weiss.", "Ein Prüfer ist Kim Braun."),
    ("Report all times in UTC.", "From now on, report all times in Pacific time."),
    ("The staging server listens on port 8080.", "The production server now listens on port 9090."),
    ("Write the report to docs/report.md.", "Do not write the report to docs/draft.md."),
    ("Always run `make lint` before a commit.", "If `make lint` does not pass, run `make format` before the commit."),
    ("Use port 8080.", "Do not change port 8080 to 9090."),
    ("Keep the timeout of the upload step at 30 seconds.", "Do not set the timeout of the download step above 60 seconds."),
    ("Review of the billing module takes 2 people.", "The billing module now has 14 open issues for review."),
    ("Never delete rows from the orders table.", "Do not rename the orders table to orders_old."),
    ("Use port 8080 and never push to the main branch.", "Use port 9090 instead of port 8080."),
    ("Backups of the customer database run at 02:00.", "Backups of the customer archive do not run at 04:00 on Sundays."),
    ("Die Testdatenbank liegt unter /srv/test.", "Die Produktionsdatenbank liegt jetzt nicht unter /srv/prod."),
    ("Tests of the parser may take 10 minutes.", "The parser tests now fail on line 42."),
]


@pytest.mark.parametrize(("older", "newer"), UNTOUCHED)
def test_a_rule_that_still_holds_is_never_set_aside(older: str, newer: str) -> None:
    """Shared words and a word of denial or change do not make a replacement; a doubt shows both."""
    assert tie(older, newer) is not Tie.REPLACES


UNRELATED = [
    ("Never push to main.", "Use port 9090 now."),
    ("Use four spaces in Python files.", "Do not use more than 5 workers."),
    ("Answer in German.", "The build does not pass."),
    ("Keep files under 400 lines.", "Now look at line 17 of the parser."),
]


@pytest.mark.parametrize(("older", "newer"), UNRELATED)
def test_what_has_nothing_to_do_with_each_other_is_not_tied(older: str, newer: str) -> None:
    """A contest that means nothing teaches the reader to skip contests."""
    assert tie(older, newer) is Tie.NONE


def test_a_statement_does_not_contest_itself() -> None:
    """Saying it again is no change."""
    assert tie("Actually, use port 9090 instead of 8080.", "Actually, use port 9090 instead of 8080.") is Tie.NONE
