"""What is asked about each demand of the story: questions that do not hold their answers, and values that look like them.

A question is in the language the demand was made in. It is written from what the demand is about, not from its words.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.story.demand_lines import DEMAND_LINES, Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question about the demand whose sentence holds `about`, and decoys for values that have few of their shape."""

    about: str
    question: str
    decoys: tuple[str, ...] = ()

    @property
    def line(self) -> Line:
        """The line of the story it is about."""
        return next(line for line in DEMAND_LINES if self.about in line.said)


def asked_about(said: str) -> Asked:
    """Return the question for a demand, given its sentence."""
    return next(asked for asked in QUESTIONS if asked.about in said)


def _q(about: str, question: str, *decoys: str) -> Asked:
    return Asked(about=about, question=question, decoys=decoys)


QUESTIONS: tuple[Asked, ...] = (
    _q("mirrored from upstream", "Which directory must never be edited because the next sync from upstream overwrites it?"),
    _q("auditors hash that directory", "Which directory do the auditors hash every night, so that nobody may touch it?"),
    _q("emptied a warehouse", "Which command may no script ever call?"),
    _q(
        "legal signed off",
        "Which document did legal sign off, so that its wording stays?",
        "docs/returns-policy.md",
        "docs/cookie-banner.md",
    ),
    _q("gets people paged", "Which branch belongs to the release crew and may not be pushed to?"),
    _q("build machines, they share", "What must not be run on the build machines?"),
    _q("burned by it twice", "Which call does the user not want to see in production code?"),
    _q("spreadsheet macros", "Which view has frozen columns because the accountants' macros read it?"),
    _q("gets a way back", "Where is it noted who tried the way back of a migration?", "migrations/REVERTED.log"),
    _q("change to the worker run", "What has to be run after each change to the worker before reporting it done?"),
    _q("Pull request titles", "What does a pull request title look like in this repository, by example?"),
    _q("down to the printer", "In which form are amounts kept all the way to the printer?", "decimal strings of four places"),
    _q("needs a clock", "What does a test use when it needs a clock?"),
    _q("mention a customer", "Where does the pseudonym in log lines about a customer come from?"),
    _q("shop staff can see", "Through which function do errors go that shop staff can see?"),
    _q("new endpoint also", "In which file does each new endpoint get a row?", "docs/routes-audited.csv"),
    _q("three decimals", "What does a time look like when it leaves the API, by example?"),
    _q("label printers' bridge", "On which port does the bridge of the label printers answer?"),
    _q("scratch database", "Which machine is the scratch database that may be broken?"),
    _q("signing receipts", "Which environment variable tells where the signing material for till slips is?"),
    _q("newer planner", "Which PostgreSQL version do all three shops run?"),
    _q("Nightly exports", "Where do the nightly files for export land?"),
    _q("rows a batch", "How many rows a batch does the supplier feed take?"),
    _q("virtual host", "What is our virtual host on the broker called?"),
    _q("courier grants us", "Which rate does the courier grant us per token?"),
    _q("Metrics of this service", "Which prefix do the metrics of this service have?"),
    _q("built without sqlite", "Which Python do the tills have?"),
    _q("Partial deliveries hide", "Behind which flag are partial deliveries?"),
    _q("Label images live", "In which bucket are the images for labels?"),
    _q("storefront has a crew", "What does this whole exercise cover, and nothing beyond it?", "the price desk and its mailings"),
    _q("ticket names; anything else", "Where does one write down what one notices beside the ticket?", "BACKLOG-ideas.md"),
    _q("other shops follow", "To which place is the performance work limited?", "the Stornoway annex"),
    _q("Schema work ends", "With which revision does schema work end in this release?"),
    _q("on the train", "How large may one pull request be?"),
    _q("demo on Thursday", "Which machine does the demo on Thursday run on?"),
    _q("retry ceiling", "How often may the courier be retried, as agreed in writing?", "nine attempts"),
    _q("scanner still speaks", "Which protocol does Marit's scanner still speak?"),
    _q("killed above that", "How much memory does the container get before it is killed?"),
    _q("tax office", "How long are receipts kept since the tax office called?", "nine years to the quarter"),
    _q("staging moved", "On which port does staging listen now?"),
    _q("reporting replica", "Which replica do reports read from now?"),
    _q("mixed up two variables", "Which variable does the worker's queue name really come from?"),
    _q("oldest till client", "What is the oldest till client we support, as corrected?"),
    _q("Price lists go to", "Where do generated price lists go from now on?"),
    _q("left on Friday", "Who answers questions about customs codes now?", "Solange Kervella"),
    _q("Druckserver ist umgezogen", "Wo steht der Druckserver jetzt, unter welcher Adresse?"),
    _q(
        "pause for deploys",
        "What came of the pause for deployments in the evening?",
        "the owner on duty may start one before midnight",
        "a freeze lasts until the quarter is closed",
    ),
    _q(
        "business, that flag is gone",
        "Where is a new value configured, since it no longer sits behind a flag?",
        "each of them is looked up in the broker at start",
        "defaults were moved into the database",
    ),
    _q("Stop copying", "Why do reports no longer go out in copy?", "the mailbox was closed for good", "they asked us to stop it"),
    _q(
        "Never mind the single commit",
        "How should commits look, now that nothing is squashed at the end?",
        "two commits, one for code and another for tests",
        "merge commits with the branch kept",
    ),
    _q(
        "Olvida lo de la copia",
        "¿Por qué no hace falta guardar más copias durante la auditoría?",
        "la auditoría pasó a otro equipo y la suspende",
        "ahora la guardan ellos en su nube",
    ),
    _q("my SQL in lower case", "How does the user like SQL to be laid out?", "a blank line after each clause"),
    _q("Short answers suit me", "What kind of answers suits the user?", "three bullets at most"),
    _q("diffs on a phone", "How wide may a diff be to fit the user's phone?"),
    _q("For drawings", "In what form does the user prefer drawings?", "a PlantUML listing"),
    _q("tests I enjoy reading", "Which test file is the model of tests that the user enjoys reading?"),
    _q("clever metaclass", "What would the user rather have than a metaclass?", "one long match statement"),
    _q("hyphen and an ampersand", "What is the supplier's full name?", "Fanø-Trosser & Datter"),
    _q("release notes thank", "Whom do the release notes thank?", "Łucja Brännström-Ødegård"),
    _q("new unit spelled", "How does customs want the new unit to be spelled?"),
    _q("marketing has printed", "What is the new module called?"),
    _q("means rubbish", "Which word do we use in the interface, because of the Scottish shops?", "slot in the rack"),
    _q("daran hängt die Buchhaltung", "Welche Spalte bleibt wegen der Buchhaltung, wie sie ist?", "steuer_kennung"),
    _q("wird gesiezt", "Wie lang dürfen Fehlertexte für die Kasse höchstens sein?"),
    _q("别的机器没有备份", "数据库迁移只能在哪台机器上执行?"),
    _q("给店员看的日期", "给店员看的日期应该写成什么格式?"),
    _q("correos a proveedores", "¿Desde qué cuenta salen los correos a proveedores?"),
    _q("almacén de Vigo", "¿A qué hora cierra el almacén de Vigo?"),
    _q("est généré", "Quel fichier est généré et doit être corrigé à la source ?", "tarifs/escales.json"),
    _q("scale at the counter", "Which port is the scale at the counter on?"),
    _q("customs data sits", "On which host does the customs data sit?"),
    _q("pays for this", "Which ticket pays for this work and goes into the changelog?"),
    _q("everybody complains", "Which lot does everybody complain about?"),
    _q("bisect from there", "Which build do customers run today?"),
    _q("we are tenant", "Which tenant are we with the courier?"),
)
