"""How PostgreSQL is reached: a server that is not there, and passwords that are looked up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ConfigurationError, InfrastructureError
from headrace.common.typeinfo import Types
from headrace.connectors.postgres.scan import PostgresScan, ScannedTable
from headrace.connectors.postgres.server import PostgresServer
from headrace.connectors.postgres.source import PostgresSource
from headrace.connectors.source import EnumeratorContext
from headrace.storage.folder import posix_folder

psycopg = pytest.importorskip("psycopg")


def test_a_server_that_a_job_has_never_reached_fails_it_for_good(tmp_path: Path) -> None:
    options = {"database-name": "shop", "table-name": "orders", "slot.name": "orders", "connect.timeout": "1 ms"}
    source = PostgresSource({"hostname": str(tmp_path), **options}, Types.ROW_NAMED(["id"], [int]))

    def discover(state: Any) -> None:
        source.create_enumerator(EnumeratorContext(1, posix_folder(tmp_path), state)).discover(0)

    with pytest.raises(ConfigurationError, match="has never read from it: see that 'hostname' and 'port' are right"):
        discover(None)
    with pytest.raises(InfrastructureError, match="PostgreSQL at"):
        discover({"system": "7"})  # it has been there: the restart strategy says how often it is asked again


def test_a_scan_waits_for_a_server_that_it_has_never_reached_as_long_as_its_option_says(tmp_path: Path) -> None:
    server = PostgresServer(str(tmp_path), 5432, "shop", timeout=1)
    source = PostgresScan(server, ScannedTable("public", "orders", {}), Types.ROW_NAMED(["id"], [int]))

    def discover(state: Any) -> None:
        source.create_enumerator(EnumeratorContext(1, posix_folder(tmp_path), state)).discover(0)

    with pytest.raises(ConfigurationError, match=r"'connection.max-retry-timeout'.*see that 'url' is right"):
        discover(None)
    with pytest.raises(InfrastructureError, match=r"failed: No such file or directory$"):
        discover(True)


def test_a_password_may_be_a_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(psycopg, "connect", lambda **options: given.update(options))
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    PostgresServer("db", 5432, "shop", "etl", "${env:SHOP_PASSWORD}").connect("a test")
    assert (given["user"], given["password"]) == ("etl", "hunter2")
    (tmp_path / "password").write_text("hunter3\n")
    PostgresServer("db", 5432, "shop", None, f"${{directory:{tmp_path}:password}}").connect("a test")
    assert (given["user"], given["password"]) == (None, "hunter3")
    with pytest.raises(ConfigurationError, match=r"env:NOT_THERE}, part of the options of PostgreSQL at .*is not set"):
        PostgresServer("db", 5432, "shop", None, "${env:NOT_THERE}").connect("a test")
