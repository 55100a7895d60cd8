"""An S3 for the tests of storage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.storage.s3_server import S3Server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    for library in ("obstore", "moto", "flask"):
        pytest.importorskip(library)
    os.environ["MOTO_CALL_RESET_API"] = "false"
    from tests.storage.s3_server import S3Server

    server = S3Server()
    yield server
    server.end()
