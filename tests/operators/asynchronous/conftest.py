"""What all tests of requests begin with, and end with."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.operators.asynchronous.services import asked, in_flight


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Nothing is asked before, and no loop is there afterwards."""
    asked.clear()
    in_flight.clear()
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("requests of")]
