"""What was tried for bounds that were missed, and what is left: a report puts it below its table."""

from __future__ import annotations

from benchmarks.whole.design import APPEND, GATEWAY, KIT, RESUME, STEPS, Judged

NOTHING_WRITTEN = "nothing is written down yet"

_RAW_SQLITE = (
    "no savepoint unless something failed, and no change of SQLite's patience around the lock, took a fifth off a turn and a "
    "tenth off a row. What is left: the hand-over to the writing thread and back, about 60 µs on an idle machine; and for a "
    "turn deflating (90 µs), two indices over digests that dirty 18 pages where raw rows dirty 7, and two lists of kinds in "
    "the schema that SQLite lays out anew for every row (70 µs; the same conditions without IN need a migration). Without "
    "gain: bodies inserted all at once under ids given out here, plain types for enums, other settings of deflate, "
    "checkpoints of the log while idle, a larger log. Foreign keys cost 3 % and stay."
)
_SESSION = (
    "it writes one row and one index entry an item, not deflated and addressed by nothing, and a turn here has ten; what took "
    "a fifth off a turn, and what is left, is said beside raw SQLite."
)
_RESUME = (
    "one reader's connection in place of up to five, each of which parses the schema, took about a fifth off. What is left, "
    "by processor time: opening the file and its log, 1 to 1.5 ms; nine reads of some seventy records, one after another, "
    "inflated and built, 2 ms; assembling them and looking at every item, 2 ms. Without gain: landmarks kind by kind in place "
    "of one union."
)
_BUDGET = "the kit's rules are what users say, and those give way last (promise 2)."
_STALE = (
    "the kit counts a value as stale wherever it stands; here an older one stands beside the newer, marked as earlier, wherever "
    "code cannot tie the two (promise 2). Rules that tie more were tried and would have hidden values that still held."
)
_STEPS = (
    "one pass for a statement's values in place of two, patterns without regard to case only where text is not ASCII, nothing "
    "laid beside everything ever said, an index in place of a scan, took a third off. What is left: words of what tools "
    "returned, ties between statements, kinds of values. A second process was not tried."
)
_KNOWN = (
    "views and digests of known items are remembered, the body is passed on without being encoded again, and uvloop and aiohttp "
    "carry it. What is left is reading 1 MB, hashing it and sending it on."
)
_UNKNOWN = "a long unknown history goes out before it is read; the last byte of its answer waits until it is recorded."

TRIED: dict[tuple[str, str], str] = {
    (KIT, "survival at 20 %"): _BUDGET,
    (KIT, "survival at 10 %"): _BUDGET,
    (KIT, "stale values"): _STALE,
    (STEPS, "a span of 1M tokens, seen once, by the clock"): _STEPS,
    (STEPS, "20k new on 1M tokens, as a process goes on, by the clock"): _STEPS,
    (APPEND, "one row : raw SQLite"): _RAW_SQLITE,
    (APPEND, "one turn : raw SQLite"): _RAW_SQLITE,
    (APPEND, "one turn : SQLiteSession"): _SESSION,
    (RESUME, "at 10,000 records"): _RESUME,
    (GATEWAY, "known prefix, added"): _KNOWN,
    (GATEWAY, "unknown prefix, added"): _UNKNOWN,
}


def tried(line: Judged) -> str:
    """Return what was tried for a bound; one of several targets of a bound has that bound's text."""
    for (row, what), text in TRIED.items():
        if line.row == row and (line.what == what or line.what.startswith(f"{what}, ")):
            return text
    return NOTHING_WRITTEN
