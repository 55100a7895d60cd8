"""A log to write to."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log without topics."""
    return Log.open(str(tmp_path / "log"), create=True)
