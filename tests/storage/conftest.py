"""Fixtures of the tests of storage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.stores import Store
from tests.storage.tcp_proxy import TcpProxy


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    """The store whose name is the parameter."""
    found: Store = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def proxy(store: Store) -> Iterator[TcpProxy]:
    """What clients reach the store by that use :meth:`Store.through`."""
    made = TcpProxy(store.serving_port)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of nobody: neither those of whoever runs the tests, nor those of the machine."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/none")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/none")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
