"""What a broker needs to be there."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _jgo() -> None:
    pytest.importorskip("jgo")
