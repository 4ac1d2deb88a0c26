"""`python -m benchmarks cases`: blind cases over our own sessions, asked of any reader."""

from __future__ import annotations

import asyncio
import os
from argparse import Namespace
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.cases.aggregates import build_tables, compute_aggregates, count_unanswered, list_facts
from benchmarks.cases.grades import score
from benchmarks.cases.lab import make_scripted_model
from benchmarks.cases.manifest import Manifest, load_manifest
from benchmarks.cases.probes import Probe, find_probe, list_probe_ids, make_probes
from benchmarks.cases.readers import LITERAL, LiteralReader, ModelReader, Reader
from benchmarks.cases.run import ASKING, CHAIN, SINGLE, CasesRun, Terms, run_cases
from benchmarks.cases.validation import check_manifest, find_problems
from benchmarks.command.console import check_output, print_tables, say, write_output
from threadkeep.cli.output import open_screen, print_json
from threadkeep.errors import BadInput
from threadkeep.llm import Model, open_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def run(args: Namespace) -> int:
    """Answer one action. `validate` fails where something is wrong, a run where a probe had no answer.

    A case that is lost is a finding, not a failure.
    """
    manifest = load_manifest(None if args.manifest is None else Path(args.manifest)).only(args.session)
    return _ACTIONS[args.action](args, manifest)


def _print_problems(args: Namespace, manifest: Manifest) -> int:
    found = find_problems(manifest)
    ids = list_probe_ids(manifest) if args.list_case_ids else []
    if args.json:
        result_json = {"ok": not found, "sessions": len(manifest.sessions), "cases": len(manifest.cases), "problems": found}
        print_json({**result_json, "case_ids": ids} if args.list_case_ids else result_json)
    else:
        screen = open_screen()
        screen.write(f"{len(manifest.cases)} cases in {len(manifest.sessions)} sessions, {len(found)} problems")
        for line in (*found, *ids):
            screen.write(line, indent=2)
    return 1 if found else 0


def _print_summary(args: Namespace, manifest: Manifest) -> int:
    cases = [case for _, case in check_manifest(manifest).cases]
    result_json = {
        "sessions": {session.id: {"hops": session.hops, "cases": len(session.cases)} for session in manifest.sessions},
        "categories": dict(sorted(Counter(case.category for case in cases).items())),
        "forms": dict(sorted(Counter(case.form for case in cases).items())),
        "priorities": dict(sorted(Counter(case.priority for case in cases).items())),
        "working_states": sum(len(session.work) for session in manifest.sessions),
    }
    if args.json:
        print_json(result_json)
        return 0
    screen = open_screen()
    screen.write(f"{len(cases)} cases and {result_json['working_states']} working states")
    for heading, counts in list(result_json.items())[:-1]:
        assert isinstance(counts, dict)
        screen.write_heading(heading.capitalize(), "")
        screen.write_table(["", ">"], [[name, _cell(count)] for name, count in counts.items()], indent=2)
    return 0


def _cell(count: int | dict[str, int]) -> str:
    return str(count) if isinstance(count, int) else f"{count['cases']} in {count['hops']} hops"


def _find_probe(args: Namespace, manifest: Manifest) -> Probe:
    probe = find_probe(make_probes(check_manifest(manifest), seed=args.seed), args.case)
    if probe is None:
        raise BadInput(f"the manifest has no case {args.case!r}; `cases validate --list-case-ids` names them")
    return probe


def _print_probe(args: Namespace, manifest: Manifest) -> int:
    probe = _find_probe(args, manifest)
    if args.json:
        print_json({"id": probe.id, "session": probe.session, "text": probe.text, "schema": probe.schema})
    else:
        screen = open_screen()
        for line in probe.text.splitlines():
            screen.write(line)
    return 0


def _print_score(args: Namespace, manifest: Manifest) -> int:
    probe = _find_probe(args, manifest)
    reply = args.response if args.response_file is None else _read(Path(args.response_file))
    found = score(probe, reply)
    result_json = {"id": probe.id, "score": found.score, "verdict": found.verdict, "hard_fail": found.hard_fail}
    if args.json:
        print_json(result_json)
    else:
        harm = ", a hard fail" if found.hard_fail else ""
        open_screen().write(f"{probe.id}: {found.verdict}, {found.score:g}{harm}")
    return 0


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{str(file)!r} cannot be read: {error}") from error


def _run(args: Namespace, manifest: Manifest) -> int:
    output = check_output(args)
    chain = args.action == "run-chain"
    terms = Terms(
        chain=chain,
        variants=tuple(args.variant) or _choose_variants(chain=chain, asking=args.summariser is not None),
        hops=args.hops,
        asked_at=_parse_hops(args.ask_at) if chain else (),
        cases=tuple(args.case),
        seed=args.seed,
        window_tokens=args.window,
        target=args.target,
        noisy=not args.no_noise,
    )
    result = asyncio.run(_measure(check_manifest(manifest), terms, args))
    result_json = {**result.as_json(), "aggregates": compute_aggregates(result)}
    write_output(output, result_json)
    if args.json:
        print_json(result_json)
    else:
        _tell(result)
    missing = count_unanswered(result)
    if missing:
        why = ", ".join(f"{code} {count}" for code, count in missing.items())
        lost = f"{sum(missing.values())} of {len(result.answered)} probes had no answer"
        say(f"{lost} ({why}); with --lab a second run asks only these")
    return 1 if missing else 0


async def _measure(manifest: Manifest, terms: Terms, args: Namespace) -> CasesRun:
    async with AsyncExitStack() as stack:
        reader: Reader = LiteralReader()
        if args.reader != LITERAL:
            reader = ModelReader(await stack.enter_async_context(open_model(args.reader, environ=os.environ)))
        summariser: Model | None = None
        if args.summariser is not None:
            summariser = make_scripted_model(args.summariser, seed=terms.seed) or await stack.enter_async_context(
                open_model(args.summariser, environ=os.environ)
            )
        lab = None if args.lab is None else Path(args.lab)
        return await run_cases(manifest, terms, reader=reader, summariser=summariser, say=say, lab=lab, mixed=args.mixed)


def _choose_variants(*, chain: bool, asking: bool) -> Sequence[str]:
    return tuple(variant for variant in (CHAIN if chain else SINGLE) if asking or variant not in ASKING)


def _parse_hops(text: str) -> Sequence[int]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise BadInput(f"--ask-at takes numbers of hops as 1,3,5, not {text!r}") from error


def _tell(result: CasesRun) -> None:
    screen = open_screen()
    screen.write(("cases", "bold"), f"  {len(result.answered)} answers, {result.seconds:.0f} s")
    for line in list_facts(result):
        screen.write(line, indent=2)
    print_tables(screen, build_tables(result))


_ACTIONS: dict[str, Callable[[Namespace, Manifest], int]] = {
    "validate": _print_problems,
    "summary": _print_summary,
    "probe": _print_probe,
    "score": _print_score,
    "run": _run,
    "run-chain": _run,
}
