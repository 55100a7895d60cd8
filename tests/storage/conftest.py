"""An S3 for the tests of storage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.storage.s3_server import S3Server


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of nobody: neither those of whoever runs the tests, nor those of the machine."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/none")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/none")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    for library in ("obstore", "moto", "flask"):
        pytest.importorskip(library)
    os.environ["MOTO_CALL_RESET_API"] = "false"
    from tests.storage.s3_server import S3Server

    server = S3Server()
    yield server
    server.end()
