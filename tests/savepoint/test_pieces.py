"""A job with all kinds of state starts from a savepoint whose tables were written and are taken in in many pieces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.common import JobStatus
from headrace.savepoint.metadata import read_metadata
from headrace.storage.folder import posix_folder
from tests.golden.golden_job import FIRST, SECOND, THIRD, finish, published, start, write
from tests.savepoint.jobs import DEADLINE, wait_for_records


@pytest.fixture(autouse=True)
def _smallest_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A row or two each, however few there are; and merged again where that can be."""
    monkeypatch.setattr("headrace.state.runs.merging.CHUNK_ROWS", 2)
    for name in ("PIECE_BYTES", "ORDERED_BYTES", "MOST_HELD"):
        monkeypatch.setattr(f"headrace.state.exported_tables.{name}", 50)
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 1)
    monkeypatch.setattr("headrace.state.compaction.SLICE_BYTES", 2_000)
    monkeypatch.setattr("headrace.jobmanager.compaction.EPOCHS_BETWEEN_LOOKS", 1)
    return


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "parallelism"),
    [*(pytest.param("hashmap", many, marks=pytest.mark.slow) for many in (1, 2)), ("rocksdb", 3)],
)
def test_it_goes_on_as_if_it_had_never_stopped(backend: str, parallelism: int, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    client, records = start(whole, 2, "hashmap"), 0
    for name, events in {"a": FIRST, "b": SECOND, "c": THIRD}.items():
        records += write(whole, name, events)
        wait_for_records(client, records)
    finish(client, records)

    client, records = start(parts, 2, backend), 0
    settings = {}
    for number, (name, events) in enumerate({"a": FIRST, "b": SECOND}.items()):
        records += write(parts, name, events)
        wait_for_records(client, records)
        savepoint = client.stop_with_savepoint(False).result(DEADLINE)
        settings = {"execution.state-recovery.path": savepoint, "execution.checkpointing.dir": str(parts / f"{number}")}
        assert client.get_job_status().result() is JobStatus.FINISHED
        client = start(parts, parallelism, backend, settings)
    tables = read_metadata(posix_folder(Path(savepoint))).tables
    assert {"interval", "sessions", "contents", "counts", "states"} <= {table.uid for table in tables}
    finish(client, records + write(parts, "c", THIRD))
    assert published(parts) == published(whole)
