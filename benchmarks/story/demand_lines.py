"""What the user demands in the story, before its values are drawn.

In a line `{v}` is the value it is about and `{old}` the one it takes back. Values come from shapes, so that two sessions
share few of them, and the sentences say what people say: a good third of them has no word that signals a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.story import words
from benchmarks.story.session import DemandKind as Kind

Shape = Callable[[Random], str]


@dataclass(frozen=True, slots=True)
class Line:
    """One demand to be.

    Attributes:
        earlier: For a correction or a withdrawal, the sentence it takes back.
        old: Where the value taken back is not of the shape of the new one, its own shape.
    """

    kind: Kind
    said: str
    shape: Shape
    earlier: str | None = None
    old: Shape | None = None


def one_of(*values: str) -> Shape:
    """Return the shape of a value that is one of these."""
    return lambda rng: rng.choice(values)


def numbered(before: str, low: int, high: int, after: str = "") -> Shape:
    """Return the shape of a number between two texts."""
    return lambda rng: f"{before}{rng.randrange(low, high)}{after}"


def joined(first: tuple[str, ...], second: tuple[str, ...]) -> Shape:
    """Return the shape of a name made of two parts."""
    return lambda rng: rng.choice(first) + rng.choice(second)


DEMAND_LINES: tuple[Line, ...] = (
    Line(
        Kind.PROHIBITION,
        "Never touch {v}: it is mirrored from upstream and every local edit is overwritten by the next sync.",
        joined(("vendor/", "third_party/"), ("zlib-shim", "labelkit", "barcode-c", "tariff-xsd")),
    ),
    Line(Kind.PROHIBITION, "Hands off {v}, the auditors hash that directory every night.", numbered("data/ledger-", 2012, 2029)),
    Line(
        Kind.PROHIBITION,
        "Under no circumstances may a script call `{v}`; the last person who did so emptied a warehouse.",
        joined(("quillback stock ", "quillback outbox "), ("purge --all", "reset --hard", "wipe --yes")),
    ),
    Line(
        Kind.PROHIBITION,
        "{v} stays as it is, legal signed off on that exact wording.",
        one_of("docs/terms-of-sale.md", "docs/warranty-text.md", "docs/privacy-notice.md"),
    ),
    Line(
        Kind.PROHIBITION,
        "Pushing to {v} is what gets people paged, that branch belongs to the release crew.",
        joined(("release/", "train/"), ("cormorant", "sandpiper", "guillemot", "shearwater")),
    ),
    Line(
        Kind.PROHIBITION,
        "Please don't run {v} on the build machines, they share their disk with the warehouse scanners.",
        one_of("`docker system prune`", "`apt full-upgrade`", "`fstrim --all`", "`updatedb`"),
    ),
    Line(
        Kind.PROHIBITION,
        "I do not want to see {v} in production code, we were burned by it twice.",
        one_of("pickle.loads", "os.fork", "ctypes.memmove", "sys.settrace"),
    ),
    Line(
        Kind.PROHIBITION,
        "The accountants' spreadsheet macros read the view {v}; its columns are frozen.",
        joined(("fin_", "acct_"), ("month_close", "vat_extract", "stock_value", "open_items")),
    ),
    Line(
        Kind.RULE,
        "Every migration gets a way back, and a line in {v} that says who tried it.",
        one_of("MIGRATED.txt", "migrations/WALKED", "var/ledger-of-moves.md"),
    ),
    Line(
        Kind.RULE,
        "After each change to the worker run `{v}` before you tell me that it is done.",
        joined(("make ", "just "), ("soak-short", "drain-check", "replay-hour")),
    ),
    Line(
        Kind.RULE,
        "Pull request titles in this repository look like this one: {v}.",
        joined(("chandlery", "tillside", "dockyard"), ("(labels): shorter zpl", "(outbox): fewer locks", "(feeds): sorted keys")),
    ),
    Line(
        Kind.RULE,
        "Amounts are {v} all the way down to the printer, floats have cost us one quarterly closing already.",
        one_of("integer minor units", "BIGINT hundredths", "whole tenths of a cent"),
    ),
    Line(
        Kind.RULE,
        "Whenever a test needs a clock it takes {v}, wall time made the suite flaky all spring.",
        joined(("quillback.testing.", "support."), ("TideClock", "StillClock", "ManualClock")),
    ),
    Line(
        Kind.RULE,
        "Log lines that mention a customer carry the pseudonym from {v} and nothing else.",
        joined(("quillback.privacy.", "quillback.discreet."), ("veil()", "mask_of()", "alias_for()")),
    ),
    Line(
        Kind.RULE,
        "Errors that shop staff can see go through {v}, in their own language.",
        joined(("say", "speak"), ("_plainly()", "_to_clerk()", "_kindly()")),
    ),
    Line(
        Kind.RULE,
        "From now on each new endpoint also gets a row in {v}.",
        one_of("docs/surface.csv", "docs/endpoints-owned.csv", "openapi/owners.csv"),
    ),
    Line(
        Kind.RULE,
        "Times leave the API in UTC with three decimals and a trailing Z, as in {v}.",
        numbered("2019-07-", 10, 29, "T04:05:06.700Z"),
    ),
    Line(Kind.BINDING, "The label printers' bridge in {s} answers on {v}.", words.port),
    Line(Kind.BINDING, "The scratch database is {v}, you may break it.", words.host),
    Line(
        Kind.BINDING,
        "The key for signing receipts is read from {v}.",
        joined(("QB_SEAL_", "QB_RECEIPT_"), ("KEYFILE", "PEM_PATH", "SIGNER")),
    ),
    Line(
        Kind.BINDING,
        "All three shops run PostgreSQL {v}, so a plan from a newer planner proves little.",
        joined(("13.", "14.", "15."), ("17", "19", "21", "23")),
    ),
    Line(
        Kind.BINDING,
        "Nightly exports land in {v}.",
        joined(("/mnt/lagoon/", "/mnt/estuary/", "/mnt/skerry/"), ("outbound", "nightly", "handover")),
    ),
    Line(
        Kind.BINDING,
        "The supplier feed takes {v} rows a batch, they cut the connection at one more.",
        lambda rng: str(rng.randrange(55, 199) * 25),
    ),
    Line(
        Kind.BINDING,
        "On the broker our virtual host is called {v}.",
        joined(("/chandlery-", "/ropewalk-", "/saltstore-"), ("blue", "amber", "slate")),
    ),
    Line(Kind.BINDING, "The courier grants us {v} per token.", numbered("", 111, 299, " requests a minute")),
    Line(
        Kind.BINDING,
        "Metrics of this service begin with {v}.",
        joined(("qbshore_", "qbdeck_", "qbhold_"), ("v2_", "main_", "prod_")),
    ),
    Line(
        Kind.BINDING, "The tills have Python {v}, built without sqlite.", joined(("3.9.", "3.10.", "3.11."), ("16", "18", "19"))
    ),
    Line(
        Kind.BINDING,
        "Partial deliveries hide behind the flag {v}.",
        joined(("allow_", "enable_"), ("split_haul", "part_landing", "half_cargo")),
    ),
    Line(
        Kind.BINDING, "Label images live in the bucket {v}.", joined(("qb-labels-", "qb-stickers-"), ("north", "fjord", "baltic"))
    ),
    Line(
        Kind.SCOPE,
        "This whole exercise covers {v} and nothing beyond it, the storefront has a crew of its own.",
        one_of("the booking path and its queue", "the goods-in desk and its reports", "the returns counter and its mails"),
    ),
    Line(
        Kind.SCOPE,
        "Fix what the ticket names; anything else you notice becomes a line in {v} and stays untouched.",
        one_of("NOTES-later.md", "PARKED.md", "someday.txt"),
    ),
    Line(
        Kind.SCOPE,
        "For the performance work limit yourself to {v}, the other shops follow in autumn.",
        one_of("the Lerwick warehouse", "the Kristiansund depot", "the Peterhead store"),
    ),
    Line(Kind.SCOPE, "Schema work ends with {v} in this release.", numbered("revision 0", 512, 988, "_lot_expiry")),
    Line(
        Kind.SCOPE,
        "Up to {v} in one pull request, past that I cannot read it on the train.",
        numbered("", 240, 460, " changed lines"),
    ),
    Line(
        Kind.LATE,
        "Oh, and the demo on Thursday runs on {v}, so that machine has to keep working through all of this.",
        words.host,
    ),
    Line(
        Kind.LATE,
        "One more thing now that you are in there: the retry ceiling is {v}, the courier has it in writing.",
        one_of("eleven attempts", "seven attempts", "thirteen attempts"),
    ),
    Line(
        Kind.LATE,
        "PS: Marit's scanner still speaks {v}; whatever you do to the parser, hers goes on working.",
        numbered("SCAN/1.", 11, 39),
    ),
    Line(
        Kind.LATE,
        "Wait, I should have said this first: the container gets {v} and is killed above that.",
        numbered("", 321, 489, " MiB"),
    ),
    Line(
        Kind.LATE,
        "Since the tax office called this morning: receipts are kept for {v}.",
        one_of("eleven years and a day", "twelve years to the day", "ten years plus one"),
    ),
    Line(
        Kind.CORRECTION,
        "staging moved: it listens on {v} now, not {old}",
        words.port,
        earlier="Staging listens on {old}, the health probe uses the same port.",
    ),
    Line(
        Kind.CORRECTION,
        "The reporting replica was rebuilt over the weekend: {v} replaces {old}.",
        words.host,
        earlier="Reports read from the replica {old}.",
    ),
    Line(
        Kind.CORRECTION,
        "I mixed up two variables: the worker's queue name comes from {v}, {old} belongs to the importer.",
        joined(("QB_QUEUE_", "QB_LANE_", "QB_CHANNEL_"), ("TITLE", "LABEL", "ALIAS")),
        earlier="The worker takes the name of its queue from {old}.",
    ),
    Line(
        Kind.CORRECTION,
        "Correction about the oldest till client we support: it is {v}, I wrote {old} before and that was the beta.",
        words.version,
        earlier="The oldest till client we support is {old}.",
    ),
    Line(
        Kind.CORRECTION,
        "Price lists go to {v} from today, {old} is full.",
        joined(("/mnt/atoll/", "/mnt/reef/", "/mnt/cove/"), ("pricelists", "tariffs", "quotes")),
        earlier="Generated price lists belong in {old}.",
    ),
    Line(
        Kind.CORRECTION,
        "{old} left on Friday, questions about customs codes go to {v} instead.",
        one_of("Torbjørg Lien", "Pilar Ocaña", "Edzard Harms", "Niamh Gilchrist"),
        earlier="Ask {old} when a customs code is in doubt.",
    ),
    Line(
        Kind.CORRECTION,
        "Der Druckserver ist umgezogen: {v} statt {old}.",
        words.host,
        earlier="Der Druckserver hat die Adresse {old}.",
    ),
    Line(
        Kind.WITHDRAWAL,
        "Forget what I said about the pause for deploys between {old}: {v}.",
        one_of(
            "the export is incremental now and deploys may go out at any hour",
            "the export moved to another machine and deploys are free again",
        ),
        earlier="No deploys between {old}, the export reads the live tables then.",
        old=numbered("22:", 11, 29, " and 23:45"),
    ),
    Line(
        Kind.WITHDRAWAL,
        "You can drop the {old} business, that flag is gone: {v}.",
        one_of("settings come straight from the shop profile", "settings are compiled into the till image"),
        earlier="Each new setting also sits behind {old}.",
        old=joined(("FEATURE_", "GATE_"), ("SEAWALL", "LOCKGATE", "BREAKWATER")),
    ),
    Line(
        Kind.WITHDRAWAL,
        "Stop copying {old} on reports, {v}.",
        one_of("the auditors log in themselves now", "their contract ended with the quarter"),
        earlier="A copy of every report goes to {old}.",
        old=joined(("audit", "revision", "oversight"), ("@northkeel.example", "@ledgerhouse.example")),
    ),
    Line(
        Kind.WITHDRAWAL,
        "Never mind the single commit called '{old}': {v}.",
        one_of("small commits, one for each step, are easier to bisect", "one commit per ticket reads better after all"),
        earlier="At the end squash it all into one commit called '{old}'.",
        old=joined(("spring ", "harbour "), ("refit", "overhaul", "cleaning")),
    ),
    Line(
        Kind.WITHDRAWAL,
        "Olvida lo de la copia en {old}: {v}.",
        one_of("la auditoría terminó y ese directorio sobra", "ya tienen acceso propio y la copia estorba"),
        earlier="Mientras dure la auditoría guarda también una copia en {old}.",
        old=joined(("/mnt/auditoria/", "/mnt/revision/"), ("marzo", "abril", "primavera")),
    ),
    Line(
        Kind.PREFERENCE,
        "I like my SQL in lower case with {v}.",
        one_of("commas at the start of the line", "the keywords aligned right", "one column a line"),
    ),
    Line(
        Kind.PREFERENCE,
        "Short answers suit me: {v}, and the reason if I ask for it.",
        one_of("the outcome in two sentences", "the verdict in one line", "the figure first"),
    ),
    Line(Kind.PREFERENCE, "I read diffs on a phone, {v} is what fits.", numbered("", 61, 79, " columns")),
    Line(
        Kind.PREFERENCE,
        "For drawings {v} beats pictures, I can diff it.",
        one_of("plain Mermaid text", "box-and-arrow ASCII", "a Graphviz source"),
    ),
    Line(
        Kind.PREFERENCE,
        "The tests I enjoy reading look like {v}.",
        joined(("tests/pricing/", "tests/money/"), ("test_rounding_table.py", "test_tier_edges.py")),
    ),
    Line(
        Kind.PREFERENCE,
        "I'd rather have {v} than a clever metaclass.",
        one_of("a boring dictionary of functions", "three plain if branches", "a little repetition"),
    ),
    Line(
        Kind.NAME,
        "The supplier's name has a hyphen and an ampersand in it: {v}.",
        one_of("Nordlicht-Tauwerk & Co.", "Skagen-Beslag & Sønner", "Ría-Cabos & Hijos"),
    ),
    Line(
        Kind.NAME,
        "The release notes thank {v}, with exactly those accents.",
        one_of("Solvéig Aasbø-Renner", "Zoë Ó Súilleabháin", "Jiří Przybyłko"),
    ),
    Line(Kind.NAME, "Customs wants the new unit spelled {v}.", one_of("COIL-HLM", "DRUM-QTR", "BALE-TWN", "SKEIN-DBL")),
    Line(
        Kind.NAME,
        "The new module is called {v}, marketing has printed it already.",
        one_of("tidewrack", "slipwayside", "bollardry", "capstanry"),
    ),
    Line(
        Kind.NAME,
        "In the interface we say '{v}', because 'bin' means rubbish to the Scottish shops.",
        one_of("stowage spot", "berth on the shelf", "keeping place"),
    ),
    Line(
        Kind.FOREIGN,
        "Die Spalte {v} bleibt, wie sie ist, daran hängt die Buchhaltung.",
        one_of("mwst_satz_alt", "beleg_kreis", "konto_gegen"),
    ),
    Line(
        Kind.FOREIGN,
        "In Fehlertexten für die Kasse wird gesiezt, und sie haben höchstens {v}.",
        numbered("", 81, 119, " Zeichen"),
    ),
    Line(Kind.FOREIGN, "数据库迁移只能在 {v} 上执行,别的机器没有备份。", words.host),
    Line(Kind.FOREIGN, "给店员看的日期一律写成{v}这种格式。", numbered("2019年7月", 10, 29, "日")),
    Line(
        Kind.FOREIGN,
        "Los correos a proveedores salen de {v}, nunca de una cuenta personal.",
        joined(("compras", "pedidos", "almacen"), ("@cabosur.example", "@muellenorte.example")),
    ),
    Line(
        Kind.FOREIGN,
        "El almacén de Vigo cierra a las {v}; antes de esa hora, nada de tareas pesadas.",
        numbered("21:", 11, 49, " h"),
    ),
    Line(
        Kind.FOREIGN,
        "Le fichier {v} est généré, on le corrige à la source.",
        one_of("tarifs/douane.json", "tarifs/ports.json", "tarifs/pavillons.json"),
    ),
    Line(Kind.LOOK_ALIKE, "The logs are full of ports; the scale at the counter is the one on {v}.", words.port),
    Line(Kind.LOOK_ALIKE, "Of all those hosts, the customs data sits on {v}.", words.host),
    Line(Kind.LOOK_ALIKE, "The ticket that pays for this is {v}, that one goes into the changelog.", words.ticket),
    Line(Kind.LOOK_ALIKE, "The lot everybody complains about is {v}.", words.lot_code),
    Line(Kind.LOOK_ALIKE, "Customers run the build {v} today; bisect from there.", words.revision),
    Line(Kind.LOOK_ALIKE, "With the courier we are tenant {v}.", words.tenant),
)
