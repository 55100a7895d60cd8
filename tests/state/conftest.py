"""What tests of all state backends share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.common.configuration import Configuration
from headrace.state.backend import STATE_BACKENDS
from headrace.state.rocksdb.table import RocksDBSettings
from headrace.state.runs import merging
from tests.state.backends import BACKENDS

if TYPE_CHECKING:
    from headrace.state.backend import StateBackendPlugin


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dictionary backend as a distribution would bring it, and tables of RocksDB for what is small, too."""
    small = RocksDBSettings(local_dir=str(tmp_path / "tables"), smallest_table=0, largest_columns=0)
    monkeypatch.setattr(RocksDBSettings, "of", lambda _: small)
    monkeypatch.setattr(merging, "CHUNK_ROWS", 8)
    about = tmp_path / "site" / "dictionaries-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: dictionaries\nVersion: 1.0\n")
    entry = "dictionary = tests.state.dictionary_backend:DictionaryStateBackend"
    (about / "entry_points.txt").write_text(f"[headrace.state_backends]\n{entry}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, installed: None) -> StateBackendPlugin:
    return STATE_BACKENDS.load(request.param).configured(Configuration())
