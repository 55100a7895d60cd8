"""Small segments are read together, and give what each gives by itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.common.errors import LogCorruptedError
from headrace.common.messages import TopicPartition
from headrace.log.log import Log
from headrace.log.producer import Producer
from headrace.log.records import Segment, SegmentReader

ONE = TopicPartition("one", 0)


@pytest.fixture
def mixed(log: Log) -> Log:
    """Commits of a few records, some with headers, some compacted so that offsets are missing, one large."""
    log.create_topic("one", config={"cleanup.policy": "compact"})
    with Producer(log) as producer:
        for number in range(12):
            headers = [("n", b"%d" % number)] if number in (5, 6) else []
            producer.send("one", b"%d" % number, b"%d" % (number % 3), headers=headers)
            producer.send("one", None, b"none")
            producer.flush()
            if number == 2:
                log.maintain(fully=True)
            if number == 8:
                producer.append("one", pa.table({"key": ["large"], "value": ["x" * 100_000]}))
    return log


def segments_of(log: Log) -> list[Segment]:
    return log.journal.state().partition(ONE).segments


def test_segments_together_give_what_each_gives_by_itself(mixed: Log) -> None:
    reader, segments = mixed.journal.segments, segments_of(mixed)
    together = list(reader.read(segments))
    alone = [batch for segment in segments for batch in reader.read([segment])]
    assert (len(together), len(alone)) == (6, len(segments))
    assert pa.Table.from_batches(together).equals(pa.Table.from_batches(alone))
    assert all(batch.schema == together[0].schema for batch in together)
    offsets = pa.Table.from_batches(together).column("offset").to_pylist()
    assert offsets == [0, 2, 4, 5, *range(6, 25)]
    assert max(batch.num_rows for batch in together) > 2


def test_what_was_just_committed_is_read_from_memory(mixed: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = mixed.read("one").read_all()
    small = [segment for segment in segments_of(mixed) if segment.file.endswith(".commit")]
    monkeypatch.setattr(SegmentReader, "_folder_of", None)  # no file can be opened
    found = pa.Table.from_batches(mixed.journal.segments.read(small))
    assert found.column("offset").to_pylist()[-1] == expected.column("offset").to_pylist()[-1]


def test_no_more_is_kept_than_the_newest(mixed: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = mixed.journal.segments
    monkeypatch.setattr("headrace.log.records._REMEMBERED_BYTES", 100)
    for name, size in (("a", 60), ("b", 50), ("b", 30), ("c", 60), ("d", 200)):
        reader.remember(name, b"x" * size)
        assert reader._size == sum(map(len, reader._remembered.values())) <= 100
    assert not reader._remembered


def test_another_file_in_the_place_of_a_remembered_one_is_read(mixed: Log) -> None:
    reader, last = mixed.journal.segments, segments_of(mixed)[-1]
    reader.remember(last.file, b"of an older copy" * 1_000)
    (batch,) = reader.read([last])
    assert batch.column("value").to_pylist() == [b"11", None]


@pytest.mark.parametrize("is_cut", [False, True])
def test_which_of_many_small_segments_is_damaged_is_told(mixed: Log, is_cut: bool) -> None:
    bad = segments_of(mixed)[-2]
    file = Path(mixed.folder.locate("commits")) / bad.file
    content = bytearray(file.read_bytes())
    content[bad.start + bad.length // 2] ^= 1
    file.write_bytes(content[: bad.start + 10] if is_cut else content)
    mixed.journal.segments.forget()
    told = "is cut short: bytes" if is_cut else rf"offsets {bad.base_offset} to {bad.end_offset - 1} of the partition"
    with pytest.raises(LogCorruptedError, match=rf"{bad.file} .*{told}"):
        list(mixed.journal.segments.read(segments_of(mixed)))
