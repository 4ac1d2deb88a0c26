"""Every kind of step the story knows, under the word its recipes use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.story import check_output, logs, tables, workspace
from benchmarks.story.scene import Scene
from benchmarks.story.session import Step

Maker = Callable[[Scene], Step]

MAKERS: Mapping[str, Maker] = {
    "read": workspace.read,
    "beside": workspace.read_beside,
    "shared": workspace.read_shared,
    "grep": workspace.grep,
    "ls": workspace.listing,
    "patch": workspace.patch,
    "diff": workspace.git_diff,
    "commit": workspace.git_commit,
    "log": workspace.git_log,
    "containers": workspace.containers,
    "sockets": workspace.sockets,
    "hosts": workspace.inventory,
    "help": workspace.usage,
    "ci": workspace.pipeline,
    "plan": workspace.plan,
    "pass": check_output.tests_pass,
    "fail": check_output.tests_fail,
    "types": check_output.types,
    "lint": check_output.lint,
    "coverage": check_output.coverage,
    "packages": check_output.audit,
    "worker": logs.worker_log,
    "access": logs.access_log,
    "trace": logs.traceback,
    "journal": logs.journal,
    "probe": logs.probe,
    "load": logs.load_test,
    "query": tables.query,
    "explain": tables.explain,
    "schema": tables.schema,
    "migrate": tables.migrate,
    "profile": tables.profile,
    "export": tables.export,
    "rows": tables.api_rows,
}

LOOKING = (
    "beside",
    "read",
    "grep",
    "beside",
    "log",
    "worker",
    "access",
    "query",
    "rows",
    "schema",
    "beside",
    "coverage",
    "ls",
    "hosts",
)
"""What an agent does when it does not yet understand; a turn that is still too short is filled with these."""

LENGTHENED = ("worker", "access", "ci", "pass", "export", "coverage", "rows")
"""What can also come at great length."""
