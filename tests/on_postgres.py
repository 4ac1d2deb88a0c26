"""`pytest --store postgres`: the same tests once more, on a server.

A store that a test opens by a file's name is then a database of its own, cloned for it, for as long as the test runs. Nothing in
the tests says so: what they state has to hold wherever threads are kept.
"""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
import pytest
from hypothesis import settings
from tests.dialect_choice import one_dialect_each
from tests.postgres import PostgresServer

from threadkeep.store.locations import Database, is_file, open_database

A_PROCESS = "starts a process of its own on a file; tests/replicas does so on a server"
A_COMMAND = "runs a command on a file, by its name"
A_LOOK = "looks into the file itself, or lays hands on it"
A_COPY = "takes a copy of the file for what a crash leaves; tests/replicas kills processes and servers"
# Whole files, or single tests of one, that are about a file and not about a store.
ABOUT_FILES: Mapping[str, str] = {
    "tests/gateway/test_control_token.py": "is about a file beside a store's file",
    "tests/gateway/test_serve_process.py": A_PROCESS,
    "tests/gateway/test_keys.py::test_no_key_is_found_in_the_store": A_LOOK,
    "tests/gateway/test_recall_tool.py::test_what_quotes_an_erased_record_is_not_sent_again": A_COMMAND,
    "tests/gateway/test_tenants.py::test_nothing_of_a_credential_or_key_is_stored": A_LOOK,
    "tests/threads/test_mailbox_stores.py::test_other_processes_deliver_while_a_turn_runs": A_PROCESS,
    "tests/threads/test_mailbox_stores.py::test_secrets_are_left_out_before_mail_is_written": A_LOOK,
    "tests/threads/test_turns.py::test_a_reader_after_a_crash_knows_where_the_turn_stands": A_COPY,
    "tests/client/test_verify.py": A_LOOK,
    "tests/parity/test_checkpoint_size.py": A_LOOK,
    "tests/parity/test_damage.py": A_LOOK,
    "tests/parity/test_failed_compaction.py::test_input_is_on_disk_before_its_turn_compacts": A_COPY,
    "tests/parity/test_resume.py::test_a_killed_process_leaves_the_windows_it_had": A_COPY,
    "tests/parity/test_resume.py::test_a_turn_cut_off_by_a_crash": A_COPY,
    "tests/parity/test_resume.py::test_a_turn_that_compacted_and_was_cut_off_by_a_crash": A_COPY,
}
# A step of a state machine is a few round trips to a server; in memory or on a file it is next to nothing.
MACHINE_EXAMPLES = 6


class Redirected:
    """Opens databases in place of files, one for each name, and drops them at the end."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._databases: dict[str, str] = {}

    async def open(self, location: str, *, listen: str | None = None) -> Database:
        if not is_file(location) or "://" in location:
            return await open_database(location, listen=listen)
        if location not in self._databases:
            self._databases[location] = await self._server.new_store()
        return await open_database(self._databases[location])

    def drop(self) -> None:
        with psycopg.connect(self._server.superuser, autocommit=True) as connection:
            for address in self._databases.values():
                connection.execute(f'DROP DATABASE "{self._server.name_in(address)}" WITH (FORCE)'.encode())


def fit_for_a_server(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests to run, those about files marked to be skipped, and the tests that would say nothing new."""
    kept = set(one_dialect_each([item for item in items if _opens_files(item)]))
    for item in kept:
        reason = next((reason for name, reason in ABOUT_FILES.items() if item.nodeid.startswith(name)), None)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
        machine = getattr(item, "cls", None)
        if machine is not None and _is_machine(item):
            machine.settings = settings(machine.settings, max_examples=MACHINE_EXAMPLES)
    return [item for item in items if item in kept], [item for item in items if item not in kept]


def _opens_files(item: pytest.Item) -> bool:
    """Whether a test may open a store by a file's name: every such file lies in its temporary folder."""
    return "tmp_path" in getattr(item, "fixturenames", ()) or _is_machine(item)


def _is_machine(item: pytest.Item) -> bool:
    return isinstance(getattr(getattr(item, "cls", None), "settings", None), settings)
