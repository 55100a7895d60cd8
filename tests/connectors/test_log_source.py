"""``LogSource``: what an embedded log has and a Kafka has not; what both have is in ``tests/connectors/partitions``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.common import ByteArraySchema, SimpleStringSchema, WatermarkStrategy
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidProgramError, InvalidTypeError, SourceChangedError
from headrace.connectors.log.source import EmbeddedPartitionedLog
from headrace.connectors.messages import MessageDeserializationSchema, MessageSerializationSchema
from headrace.connectors.source import EnumeratorContext, ReaderContext
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.log import (
    LogSink,
    LogSource,
    LogSourceBuilder,
    OffsetResetStrategy,
    OffsetsInitializer,
)
from headrace.log import Log, TopicPartition
from headrace.storage.folder import posix_folder
from tests.connectors.log_topics import LogTopic
from tests.connectors.partitions.driver import texts


def environment(tmp_path: Path, **settings: str) -> StreamExecutionEnvironment:
    usual = {"headrace.runtime": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(usual | settings))


def test_from_a_log_to_a_log_by_one_job_after_the_other(tmp_path: Path) -> None:
    topic = LogTopic(Log.open(str(tmp_path / "log"), create=True))
    topic.log.create_topic("copy", 2)
    start = OffsetsInitializer.committed_offsets(OffsetResetStrategy.EARLIEST)
    for first in range(0, 300, 100):
        topic.put(range(first, first + 100))
        source = topic.reading(start, group="copies").set_bounded(OffsetsInitializer.latest()).build()
        env = environment(
            tmp_path / str(first), **{"headrace.epoch.max-records": "30", "headrace.epoch.target-duration": "60s"}
        )
        lines = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "read")
        sink = LogSink.builder().set_log(topic.log.folder.locate(""))
        lines.sink_to(sink.set_record_serializer(MessageSerializationSchema("copy", ByteArraySchema())).build())
        env.execute("copy")
    batches = [batch for each in topic.log.partitions_of("copy") for batch in topic.log.fetch(each, 0)[0]]
    copied = [value for batch in batches for value in batch.column("value").to_pylist()]
    assert sorted(copied, key=int) == texts(range(300))


def test_a_job_manager_that_stood_still_sets_no_offset_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topic = LogTopic(Log.open(str(tmp_path / "log"), create=True))
    topic.put(range(9))
    old, new = (EmbeddedPartitionedLog(Log(topic.log.folder), "readers") for _ in range(2))
    place = TopicPartition(topic.name, 0)
    steps = [(old, 2, 2), (new, 1, 1), (new, 5, 5), (old, 3, 5), (new, 6, 6)]  # one begins where its checkpoint is
    for who, offset, then in steps:
        who.topic_ids([topic.name])
        who.commit({place: offset})
        assert topic.committed("readers") == {0: then}
    assert f"another process has committed 5 of {place}; this job is at 3" in caplog.text


def test_a_reader_knows_a_topic_that_was_made_again(tmp_path: Path) -> None:
    """It was made again after the driver has seen how far it can be read."""
    topic = LogTopic(Log.open(str(tmp_path / "log"), create=True))
    topic.put(range(9))
    reader = topic.reading().build().create_reader()
    reader.open(ReaderContext())
    list(reader.read([f"{topic.name}-0", 0, 1]))
    topic.delete()
    topic.make()
    topic.put(range(20))
    with pytest.raises(SourceChangedError, match="was deleted and made again"):
        list(reader.read([f"{topic.name}-0", 1, 2]))


def test_records_say_whose_their_timestamps_are_and_know_no_leaders(tmp_path: Path) -> None:
    topic = LogTopic(Log.open(str(tmp_path / "log"), create=True))
    topic.put(range(2), timestamp=7)
    asked = ["timestamp", "timestamp-type", "leader-epoch"]
    schema = MessageDeserializationSchema(SimpleStringSchema(), metadata=asked)
    reader = topic.reading().set_deserializer(schema).build().create_reader()
    reader.open(ReaderContext())
    (records,) = reader.read([f"{topic.name}-0", 0, 2])
    assert records.columns is not None
    found = [records.columns.column(name).to_pylist() for name in ("timestamp-type", "leader-epoch")]
    assert found == [["CreateTime"] * 2, [None] * 2]


def test_many_small_commits_are_one_batch(tmp_path: Path) -> None:
    topic = LogTopic(Log.open(str(tmp_path / "log"), create=True))
    for number in range(20):
        topic.put([number])
    reader = topic.reading().build().create_reader()
    reader.open(ReaderContext())
    (records,) = reader.read([f"{topic.name}-0", 3, 18])
    assert (records.rows or records.columns.column(0).to_pylist()) == texts(range(3, 18))


@pytest.mark.parametrize(
    ("method", "given", "reason"),
    [
        ("set_topics", ["orders"], r"set_topics takes a str, not \['orders'\]"),
        ("set_dead_letter", "bad", "set_dead_letter takes an OutputTag, not 'bad'"),
        ("set_partition_discovery", 10, "set_partition_discovery takes a Duration, not 10"),
        ("set_offset_reset", "earliest", "set_offset_reset takes an OffsetResetStrategy, not 'earliest'"),
        ("set_log", 5, "set_log takes a path or a URI, not 5"),
        ("set_group_id", 5, "set_group_id takes a str, not 5"),
    ],
)
def test_arguments_of_another_type_are_refused(method: str, given: Any, reason: str) -> None:
    with pytest.raises(InvalidTypeError, match=rf"{reason}\n  at {__file__}:\d+ in test_arg"):
        getattr(LogSource.builder(), method)(given)


@pytest.mark.parametrize(
    ("method", "given", "reason"),
    [
        ("set_log", " ", r"the path is empty \(was it to come from a variable"),
        ("set_group_id", "", "the name of the group is empty"),
        ("set_partitions", {"orders-0"}, r"a set of TopicPartition\('orders', 0\) and the like.*, not {'orders-0'}"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(method: str, given: Any, reason: str) -> None:
    with pytest.raises(InvalidProgramError, match=rf"{reason}.*\n  at {__file__}:\d+ in test_arg"):
        getattr(LogSource.builder(), method)(given)


def test_a_start_is_milliseconds() -> None:
    start: Any = 1.7e12
    with pytest.raises(InvalidTypeError, match=r"OffsetsInitializer.timestamp takes an int, not 1700000000000.0"):
        OffsetsInitializer.timestamp(start)


@pytest.mark.parametrize(
    ("is_bounded", "end"), [(True, "the source ends at once"), (False, "nothing is read until there are")]
)
def test_a_pattern_that_no_topic_matches_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_bounded: bool, end: str
) -> None:
    made: LogSourceBuilder[str] = LogSource.builder()
    Log.open(f"{tmp_path}/log", create=True).create_topic("orders")
    made.set_log(f"{tmp_path}/log").set_topic_pattern("order").set_value_only_deserializer(SimpleStringSchema())
    source = (made.set_bounded(OffsetsInitializer.latest()) if is_bounded else made).build()
    enumerator = source.create_enumerator(EnumeratorContext(1, posix_folder(tmp_path), None))
    assert enumerator.discover(0) == []
    assert f"there are no topics like order: {end}" in caplog.text
    enumerator.close()
