"""What a cache keeps lies in files, of which an epoch reads its share."""

from __future__ import annotations

import errno
import gc
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.common.batch import Batch
from headrace.common.errors import InfrastructureError, StateError
from headrace.common.typeinfo import Types
from headrace.connectors import driver_sink
from headrace.connectors.driver_sink import CachedSource, CacheFiles, DriverSink, EncodedRecords
from headrace.connectors.sink import CommitterContext
from headrace.connectors.source import EnumeratorContext, ReadBudget
from headrace.storage.folder import posix_folder

LONG = Types.LONG()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def numbers(start: int, end: int) -> EncodedRecords:
    values = list(range(start, end))
    return EncodedRecords.of(Batch.of_rows(LONG, values, [value * 10 for value in values], values))


def filled() -> CacheFiles:
    files = CacheFiles()
    for epoch in range(4):
        start = epoch * 1_000
        files.take([numbers(start, start + 500), numbers(start + 500, start + 1_000)], LONG)
    return files


@pytest.mark.parametrize("records", [1, 700, 1_700, 1 << 30])
def test_each_epoch_reads_its_share(records: int) -> None:
    source = CachedSource(filled(), LONG)
    enumerator = source.create_enumerator(EnumeratorContext(2, posix_folder(Path())))
    position, found, times = 0, [], []
    while not enumerator.is_finished("cache", position):
        assert enumerator.pending("cache", position, 0).records == 4_000 - len(found)
        read = enumerator.plan("cache", position, ReadBudget(records, 1 << 30, pieces=2), 0)
        assert read is not None
        assert 0 < read.records <= max(records, 500), "a batch is read as a whole"
        for piece in read.pieces:
            for part in source.create_reader().read(piece):
                assert part.columns is not None
                found += part.columns.column(0).to_pylist()
                times += part.timestamps.tolist()
        position = read.end
    assert found == list(range(4_000))
    assert times == [number * 10 for number in found]


def test_an_epoch_reads_no_more_bytes_than_it_may() -> None:
    read = (
        CachedSource(filled(), LONG)
        .create_enumerator(EnumeratorContext(2, posix_folder(Path())))
        .plan("cache", 0, ReadBudget(1 << 30, 20_000), 0)
    )
    assert read is not None
    assert (read.end, read.bytes <= 20_000) == (2, True)


def test_an_epoch_that_is_committed_again_is_there_once() -> None:
    files = CacheFiles()
    sink = DriverSink(files.take)
    for _ in range(2):
        sink.create_committer(CommitterContext("job", "sink", LONG)).commit(3, [numbers(0, 5)], 0)
    assert sum(place.count for place in files.places) == 5


def test_an_epoch_that_could_not_be_written_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    files = filled()

    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(driver_sink, "write_file", full)
        with pytest.raises(InfrastructureError, match=r"cache\(\) cannot write its temporary files.*TMPDIR.*No space"):
            files.take([numbers(4_000, 4_100)], LONG)
    files.take([numbers(4_000, 4_001)], LONG)
    assert [part.as_rows(LONG) for part in files.read(8, 9)] == [[4_000]]


@pytest.mark.parametrize("harm", [Path.unlink, lambda file: os.truncate(file, file.stat().st_size - 1)])
def test_a_file_that_is_not_whole_is_told(folder: Path, harm: Callable[[Path], None]) -> None:
    files = filled()
    (lost,) = folder.glob("*/2")
    harm(lost)
    assert len(files.read(0, 4)) == 4, "those before it"
    with pytest.raises(
        StateError, match=r"what cache\(\) has kept in .*/2 cannot be read: .* invalidate\(\) of"
    ) as raised:
        files.read(3, 8)
    assert str(lost) in str(raised.value)


def test_the_files_go_with_the_cache(folder: Path) -> None:
    files = filled()
    records = sorted(folder.glob("headrace-cache-*/[0-9]*"))
    assert sum(path.stat().st_size for path in records) == sum(place.size for place in files.places)
    assert [path.stat().st_mode & 0o077 for path in records] == [0] * 4
    del files
    gc.collect()
    assert list(folder.glob("headrace-cache-*")) == []
