"""A log to write to."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log import commits as commits_module
from headrace.log import journal as journal_module
from headrace.log import transactions
from headrace.log.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log without topics."""
    return Log.open(str(tmp_path / "log"), create=True)


@pytest.fixture
def snapshots_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots come with every fourth commit, and records are in files of their own from 3,000 bytes on."""
    monkeypatch.setattr(commits_module, "SNAPSHOT_INTERVAL", 4)
    monkeypatch.setattr(journal_module, "SNAPSHOT_INTERVAL", 4)
    monkeypatch.setattr(transactions, "_INLINE_BYTES", 3_000)
