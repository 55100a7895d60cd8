"""What a cache keeps lies in a file, of which an epoch reads its share."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import pytest

from headrace.common.batch import Batch
from headrace.common.typeinfo import Types
from headrace.connectors.cache import CachedSource, CacheFile
from headrace.connectors.driver_sink import EncodedRecords
from headrace.connectors.source import EnumeratorContext, ReadBudget
from headrace.storage.posix import PosixFolder

LONG = Types.LONG()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def numbers(start: int, end: int) -> EncodedRecords:
    values = list(range(start, end))
    return EncodedRecords.of(Batch.of_rows(LONG, values, [value * 10 for value in values], values))


def filled() -> CacheFile:
    file = CacheFile()
    for epoch in range(4):
        start = epoch * 1_000
        file.commit("job", epoch, [numbers(start, start + 500), numbers(start + 500, start + 1_000)], LONG)
    return file


@pytest.mark.parametrize("records", [1, 700, 1_700, 1 << 30])
def test_each_epoch_reads_its_share(records: int) -> None:
    source = CachedSource(filled(), LONG)
    enumerator = source.create_enumerator(EnumeratorContext(2, PosixFolder(Path())))
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
        .create_enumerator(EnumeratorContext(2, PosixFolder(Path())))
        .plan("cache", 0, ReadBudget(1 << 30, 20_000), 0)
    )
    assert read is not None
    assert (read.end, read.bytes <= 20_000) == (2, True)


def test_an_epoch_that_is_committed_again_is_there_once() -> None:
    file = filled()
    file.commit("job", 3, [numbers(0, 5)], LONG)
    assert sum(place.count for place in file.places) == 4_000


def test_what_failed_half_way_is_written_again() -> None:
    file = filled()
    wrong = EncodedRecords(b"some bytes", b"", None, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        file.commit("job", 4, [numbers(4_000, 4_100), wrong], LONG)
    file.commit("job", 4, [numbers(4_000, 4_001)], LONG)
    assert [part.as_rows(LONG) for part in file.read(8, 9)] == [[4_000]]


def test_the_file_goes_with_the_cache(folder: Path) -> None:
    file = filled()
    (records,) = folder.glob("headrace-cache-*/records")
    assert records.stat().st_size == sum(place.size for place in file.places)
    assert records.stat().st_mode & 0o077 == 0
    del file
    gc.collect()
    assert list(folder.glob("headrace-cache-*")) == []
