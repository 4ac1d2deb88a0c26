"""Every kind of step the story knows, under the word its episodes use for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from threadkeep.demo import checks, figures, machine, traffic
from threadkeep.demo.scene import Scene
from threadkeep.demo.session import Step

Maker = Callable[[Scene], Step]

MAKERS: Mapping[str, Maker] = {
    "read": machine.read,
    "beside": machine.read_beside,
    "shared": machine.read_shared,
    "grep": machine.grep,
    "ls": machine.listing,
    "patch": machine.patch,
    "diff": machine.git_diff,
    "commit": machine.git_commit,
    "log": machine.git_log,
    "containers": machine.containers,
    "sockets": machine.sockets,
    "hosts": machine.inventory,
    "help": machine.usage,
    "ci": machine.pipeline,
    "plan": machine.plan,
    "pass": checks.tests_pass,
    "fail": checks.tests_fail,
    "types": checks.types,
    "lint": checks.lint,
    "coverage": checks.coverage,
    "packages": checks.audit,
    "worker": traffic.worker_log,
    "access": traffic.access_log,
    "trace": traffic.traceback,
    "journal": traffic.journal,
    "probe": traffic.probe,
    "load": traffic.load_test,
    "query": figures.query,
    "explain": figures.explain,
    "schema": figures.schema,
    "migrate": figures.migrate,
    "profile": figures.profile,
    "export": figures.export,
    "rows": figures.api_rows,
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
