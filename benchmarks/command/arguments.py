"""The arguments of `python -m benchmarks`: one command a measure, each with what it takes and nothing else."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter
from typing import Any

from threadkeep.cli.commands import parse_count

CASE_ACTIONS = {
    "validate": "say what is wrong with the manifest, if anything",
    "summary": "how many cases of which category, form and session",
    "probe": "one case as a reader is asked it",
    "score": "what a reply to one case is worth",
    "run": "compact each session once, and ask after its last hop only",
    "run-chain": "compact each session after every hop, and ask",
}


def add_measures(parser: ArgumentParser) -> None:
    """Add every measure and its options."""
    measures = parser.add_subparsers(dest="what", metavar="WHAT", title="measures", required=True)
    store = _add_measure(measures, "store", "the store beside SQLite itself and beside the stores of others")
    store.add_argument(
        "--store",
        metavar="URL",
        default=SUPPRESS,
        help="measure this PostgreSQL server beside SQLite; tenants are added to it",
    )
    retention = _add_measure(measures, "retention", "which facts are still there after many compactions")
    retention.add_argument(
        "--family",
        choices=("story", "frozen", "both"),
        default="both",
        help="the sessions threadkeep was developed on, those it never saw, or both (default: %(default)s)",
    )
    retention.add_argument(
        "--hosts",
        action="store_true",
        help="every host's own compactor and threadkeep through it, in this interpreter or in the one that --peer names",
    )
    _add_peer(retention)
    _add_measure(measures, "compaction", "what planning, merging and auditing cost")
    gateway = _add_measure(measures, "gateway", "what the gateway adds to a request, beside other proxies")
    _add_proxy(gateway)
    _add_cases(measures.add_parser("cases", **_describe("blind cases, asked of a reader model after every compaction")))
    _add_dataset(measures.add_parser("dataset", **_describe("recall over LoCoMo, LongMemEval or BEAM, from files you have")))
    _add_guard(measures.add_parser("guard", **_describe("counts that depend on no machine, held against the expected ones")))
    _add_report(measures.add_parser("report", **_describe("all of it in one run, the design's bounds beside what was found")))


def _describe(does: str) -> dict[str, Any]:
    return {
        "help": does,
        "description": f"{does[0].upper()}{does[1:]}.",
        "formatter_class": RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }


def _add_measure(measures: Any, name: str, does: str) -> ArgumentParser:
    parser: ArgumentParser = measures.add_parser(name, **_describe(does))
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="a minute or two (the default)")
    length.add_argument("--full", action="store_true", help="some minutes: a million records, or fifty compactions")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which items are used (default: %(default)s)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the JSON object to FILE too")
    _add_json(parser)
    return parser


def _add_peer(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME[=PYTHON]",
        help="another compactor beside threadkeep, in the interpreter that has it: langchain, hermes, pydantic-ai, headroom, "
        "openai-agents, openai-agents-gateway, claude-agent-sdk, or threadkeep through a host: threadkeep-langchain, -hermes, "
        "-openai-agents, -pydantic-ai, -litellm; may be repeated",
    )


def _add_proxy(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--proxy",
        action="append",
        default=[],
        metavar="NAME=PYTHON",
        help="litellm or headroom, and the interpreter that has it (default: this one, where it is installed)",
    )


def _add_dataset(parser: ArgumentParser) -> None:
    parser.add_argument("form", metavar="FORM", choices=("locomo", "longmemeval", "beam"), help="locomo, longmemeval or beam")
    parser.add_argument("path", metavar="FILE", help="the file its makers publish; for beam, the folder of a conversation")
    parser.add_argument("--limit", type=parse_count, metavar="N", help="only the first N conversations (default: all)")
    _add_json(parser)


def _add_guard(parser: ArgumentParser) -> None:
    parser.add_argument("--write", action="store_true", help="make what was counted what is expected, and say what changed")
    parser.add_argument("--expected", metavar="FILE", help="another file of expected counts (default: threadkeep's own)")
    _add_json(parser)


def _add_report(parser: ArgumentParser) -> None:
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="about a minute on a machine at rest; says less (the default)")
    length.add_argument("--full", action="store_true", help="up to an hour")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which sessions and items (default: %(default)s)")
    parser.add_argument(
        "--output", metavar="FOLDER", help="write report.md, report.json and every part; parts that are there stay"
    )
    _add_peer(parser)
    _add_proxy(parser)
    parser.add_argument("--part", action="append", default=[], metavar="NAME", help="measure only this part; may be repeated")
    parser.add_argument("--write-only", action="store_true", help="measure nothing; write the report of the parts that are there")
    _add_json(parser)


def _add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", default=SUPPRESS, help="print one JSON object")


def _add_cases(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    for name, does in CASE_ACTIONS.items():
        action = actions.add_parser(name, **_describe(does))
        action.add_argument("--manifest", metavar="FOLDER", help="a manifest of your own (default: threadkeep's)")
        action.add_argument("--session", action="append", default=[], metavar="NAME", help="only this session; may be repeated")
        _add_json(action)
        if name not in ("validate", "summary"):
            action.add_argument("--seed", type=int, default=1, metavar="N", help="the order of options (default: %(default)s)")
        if name == "validate":
            action.add_argument("--list-case-ids", action="store_true", help="name every case and working state too")
        if name in ("probe", "score"):
            action.add_argument("--case", required=True, metavar="ID", help="which case; a working state is SESSION-work-HOP")
        if name == "score":
            reply = action.add_mutually_exclusive_group(required=True)
            reply.add_argument("--response", metavar="TEXT", help="the reply")
            reply.add_argument("--response-file", metavar="FILE", help="a file with the reply")
        if name in ("run", "run-chain"):
            _add_case_run(action, chain=name == "run-chain")


def _add_case_run(action: ArgumentParser, *, chain: bool) -> None:
    baseline = "chain_control" if chain else "source"
    action.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="NAME",
        help=f"{baseline}, session, handoff, extractive or none; may be repeated (default: all that can be run)",
    )
    action.add_argument(
        "--reader",
        default="literal",
        metavar="MODEL",
        help="who answers: NAME@URL, openai:NAME, …; literal only looks words up",
    )
    action.add_argument(
        "--summariser", metavar="MODEL", help="whom compactions ask: a model, or a scripted one: faithful, lossy, lying, …"
    )
    action.add_argument("--case", action="append", default=[], metavar="ID", help="ask only this case; may be repeated")
    action.add_argument("--hops", type=parse_count, default=0, metavar="N", help="play only the first N hops (default: all)")
    if chain:
        action.add_argument("--ask-at", default="", metavar="HOPS", help="ask after these hops only: 1,3,5 (default: each)")
    action.add_argument(
        "--window", type=parse_count, default=8_192, metavar="N", help="the model's window, tokens (default: %(default)s)"
    )
    action.add_argument("--target", default="50%", metavar="N", help="what a compaction aims at (default: 50%% of the window)")
    action.add_argument("--no-noise", action="store_true", help="tools print no noise: shorter sessions, for a slow reader")
    action.add_argument("--lab", metavar="FOLDER", help="keep the threads and the progress there; a run that broke off goes on")
    action.add_argument(
        "--mixed", action="store_true", help="let it go on with other code than it was begun with; the result says so"
    )
    action.add_argument("-o", "--output", metavar="FILE", help="write the JSON object to FILE too")
