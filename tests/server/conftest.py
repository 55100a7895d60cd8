"""A server that no test has to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.client import running
from headrace.server.settings import RestSettings
from tests.server.serving import Served

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served(RestSettings("127.0.0.1", (0,)))
    yield made
    running.cancel_all()
    made.server.close()
