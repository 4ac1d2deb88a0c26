"""What was tried for bounds that were missed, and what is left: a report puts it below its table."""

from __future__ import annotations

from holdfast.bench.whole.design import APPEND, GATEWAY, Judged

NOTHING_WRITTEN = "nothing is written down yet"

_RAW_SQLITE = (
    "the hand-over to the writing thread costs about 60 µs; digests, the chain and content-addressed bodies are the rest. No "
    "savepoint for a lone job, checkpoints of the log while idle, and a larger log were tried without gain."
)
_KNOWN = (
    "views and digests of known items are remembered, the body is passed on without being encoded again, and uvloop and aiohttp "
    "carry it. What is left is reading 1 MB, hashing it and sending it on."
)
_UNKNOWN = "a long unknown history goes out before it is read; the last byte of its answer waits until it is recorded."

TRIED: dict[tuple[str, str], str] = {
    (APPEND, "one row : raw SQLite"): _RAW_SQLITE,
    (APPEND, "one turn : raw SQLite"): _RAW_SQLITE,
    (GATEWAY, "known prefix, added"): _KNOWN,
    (GATEWAY, "unknown prefix, added"): _UNKNOWN,
}


def tried(line: Judged) -> str:
    """Return what was tried for a bound; one of several targets of a bound has that bound's text."""
    for (row, what), text in TRIED.items():
        if line.row == row and (line.what == what or line.what.startswith(f"{what}, ")):
            return text
    return NOTHING_WRITTEN
