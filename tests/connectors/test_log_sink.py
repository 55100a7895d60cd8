"""Records into the embedded log: what is visible when, and each once whatever fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.common import SerializationSchema, SimpleStringSchema, WatermarkStrategy
from headrace.common.batch import Batch
from headrace.common.configuration import Configuration
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import (
    CheckpointError,
    CommitRefusedError,
    InfrastructureError,
    InvalidProgramError,
    InvalidTypeError,
    UnknownNameError,
    UnknownTopicError,
)
from headrace.common.typeinfo import Types
from headrace.connectors.log.sink import LogCommitter, LogWriter, job_and_sink, producer_of
from headrace.connectors.messages import MessageSerializationSchema
from headrace.connectors.ranges import NumberSequenceSource
from headrace.connectors.sink import CommitterContext, DeliveryGuarantee, WriterContext, WriterEpoch
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from headrace.datastream.connectors.log import LogSink, LogSource
from headrace.log import Consumer, Log, TopicPartition
from headrace.log import commits as commits_module
from headrace.log import journal as journal_module
from headrace.log.records import to_records
from headrace.log.transactions import abandon, open_transactions
from headrace.storage.folder import Folder, posix_folder

TEXTS = MessageSerializationSchema("out", SimpleStringSchema())


class Digits(SerializationSchema):
    def serialize(self, element: Any) -> bytes:
        return str(element).encode()


class Below7(SerializationSchema):
    def serialize(self, element: Any) -> bytes:
        if element >= 7:
            raise ValueError(f"{element} is too high")
        return str(element).encode()


class Short(SerializationSchema):
    def serialize(self, element: Any) -> bytes:
        return b"short"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log.open(str(tmp_path / "log"), create=True)
    log.create_topic("out", 2)
    return log


def sink_of(log: Log, guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE, schema: Any = TEXTS) -> LogSink:
    builder = LogSink.builder().set_log(Path(log.folder.locate("")).as_posix()).set_record_serializer(schema)
    return builder.set_delivery_guarantee(guarantee).build()


def committing(generation: int = 0, restored: int = 0, folder: Folder | None = None) -> CommitterContext:
    return CommitterContext("job", "sink", Types.STRING(), generation, restored, folder=folder)


def written(sink: LogSink, epoch: int, texts: list[str], subtask: int = 0) -> list[Any]:
    """The committables of a subtask, as a manifest has them."""
    writer = sink.create_writer(WriterContext("job", "sink", 0, subtask, 2, Types.STRING()))
    writer.begin_epoch(WriterEpoch(epoch, 1_000))
    writer.write(Batch.of_rows(Types.STRING(), texts, [NO_TIMESTAMP] * len(texts), [0] * len(texts)))
    found: list[Any] = json.loads(json.dumps(writer.prepare_commit()))
    return found


def values(log: Log) -> list[str]:
    consumer = Consumer(log, auto_offset_reset="earliest")
    consumer.subscribe(["out"])

    def polled() -> Iterator[str]:
        while records := consumer.poll(0):
            yield from (record.value.decode() for record in records if record.value is not None)

    return sorted(polled())


def commits(log: Log) -> int:
    log.journal.refresh()
    return log.journal.state().version


def test_what_an_epoch_has_written_becomes_visible_at_once(log: Log) -> None:
    sink = sink_of(log)
    committer = sink.create_committer(committing())
    assert committer is not None
    of_both = written(sink, 1, ["a", "b"]) + written(sink, 1, ["c" * 100_000], subtask=1)
    assert values(log) == []
    before = commits(log)
    committer.commit(1, of_both, 1_000)
    assert commits(log) == before + 1
    assert values(log) == ["a", "b", "c" * 100_000]


@pytest.mark.parametrize(("key", "files"), [(None, 0), (SimpleStringSchema(), 1)])
def test_long_keys_do_not_pile_up_until_the_end_of_an_epoch(
    key: SerializationSchema | None, files: int, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connectors.log.sink._STAGED_TOGETHER", 1_000)
    sink = sink_of(log, schema=MessageSerializationSchema("out", Short(), key))
    writer = sink.create_writer(WriterContext("job", "sink", 0, 0, 1, Types.STRING()))
    assert isinstance(writer, LogWriter)
    writer.begin_epoch(WriterEpoch(1, 1_000))
    writer.write(Batch.of_rows(Types.STRING(), ["a" * 1_000], [NO_TIMESTAMP], [0]))
    assert len(writer._staged) == files


def test_an_epoch_is_committed_once_by_whichever_generation(log: Log) -> None:
    sink = sink_of(log)
    staged = written(sink, 1, ["a", "b"])
    for generation in (0, 0, 1, 4):
        committer = sink.create_committer(committing(generation))
        assert committer is not None
        for _ in range(2):
            committer.commit(1, staged, 1_000)
    committer.commit(2, written(sink, 2, ["c"]), 2_000)
    assert values(log) == ["a", "b", "c"]


def test_an_older_generation_makes_nothing_visible_any_more(log: Log) -> None:
    sink = sink_of(log)
    old = LogCommitter(log, committing(1))
    staged = written(sink, 1, ["a"])
    LogCommitter(log, committing(2))
    with pytest.raises(InfrastructureError, match="is fenced"):
        old.commit(1, staged, 1_000)
    with pytest.raises(InfrastructureError, match="younger job manager"):
        LogCommitter(log, committing(1))
    assert values(log) == []


def test_an_old_copy_of_a_checkpoint_is_noticed(log: Log) -> None:
    sink = sink_of(log)
    committer = LogCommitter(log, committing())
    for epoch in (1, 2, 3):
        committer.commit(epoch, written(sink, epoch, [str(epoch)]), 1_000)
    sink.check_output(committing(1, restored=3))
    with pytest.raises(CheckpointError, match="holds output of this job up to epoch 3"):
        sink.check_output(committing(1, restored=2))


@pytest.mark.parametrize("builder", [LogSink.builder(), LogSource.builder()])
def test_names_that_a_builder_does_not_have(builder: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"has no 'setLog': did you mean set_log\?"):
        builder.setLog("shop.log")
    with pytest.raises(UnknownNameError, match="has no 'set_property'"):
        builder.set_property("retention.ms", "1")


def test_an_old_copy_of_the_log_is_noticed(log: Log, tmp_path: Path) -> None:
    sink, folder = sink_of(log), posix_folder(tmp_path / "sink")
    location = Path(log.folder.locate(""))
    copies = [tmp_path / "copy 0", tmp_path / "copy 1"]
    committer = LogCommitter(log, committing(folder=folder))
    for epoch, copy in zip((1, 2), copies, strict=True):
        shutil.copytree(location, copy)
        committer.commit(epoch, written(sink, epoch, [str(epoch)]), 1_000)
    sink.check_output(committing(1, restored=2, folder=folder))
    for copy, told in zip(copies, ("is at epoch 0", "is at epoch 1"), strict=True):
        shutil.rmtree(location)
        shutil.copytree(copy, location)
        again = committing(1, restored=2, folder=folder)
        for begin in (sink.check_output, sink.create_committer):
            with pytest.raises(
                CheckpointError, match=rf"{told} of this job, but its output up to epoch 2 .* older copy"
            ):
                begin(again)
    shutil.rmtree(location)
    Log.open(str(location), create=True).create_topic("out", 2)
    with pytest.raises(CheckpointError, match="knows nothing of this job, but its output up to epoch 2"):
        sink.check_output(again)
    (tmp_path / "sink" / "published.json").unlink()
    sink.check_output(again)


def test_output_waits_for_its_commit_however_long(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is far ahead as well; what a failed attempt has left goes when its epoch is committed."""
    monkeypatch.setattr(commits_module, "SNAPSHOT_INTERVAL", 4)
    monkeypatch.setattr(journal_module, "SNAPSHOT_INTERVAL", 4)
    log.alter_topic("out", {"compression.type": "none"})
    sink = sink_of(log)
    LogCommitter(log, committing())
    large = ["x" * 100_000]
    staged, _ = written(sink, 2, large), written(sink, 1, large)
    ahead = Log(log.folder, clock=lambda: 1 << 42)
    for number in range(8):
        ahead.alter_topic("out", {"retention.bytes": (1 << 30) + number})
    ahead.maintain(fully=True)
    assert len(log.journal.chunk_names()) == 2
    LogCommitter(log, committing(1)).commit(2, staged, 1_000)
    ahead.maintain(fully=True)
    assert len(log.journal.chunk_names()) == 1
    assert values(log) == large


def test_a_job_whose_output_was_abandoned_writes_nothing_more(log: Log) -> None:
    log.alter_topic("out", {"compression.type": "none"})
    sink = sink_of(log)
    committer = LogCommitter(log, committing())
    committer.commit(1, written(sink, 1, ["a"]), 1_000)
    staged = written(sink, 2, ["x" * 100_000])
    (waiting,) = open_transactions(log.journal)
    assert (waiting.producer, waiting.sequence, waiting.outlasts_producer) == (producer_of("job", "sink"), 2, True)
    assert abandon(log.journal, producer_of("job", "sink")) == 1
    assert log.journal.chunk_names() == []
    with pytest.raises(InfrastructureError, match="is fenced"):
        committer.commit(2, staged, 1_000)
    for begin in (sink.check_output, sink.create_committer):
        with pytest.raises(CheckpointError, match="was abandoned, with `headrace log abandon`"):
            begin(committing(1, restored=2))
    written(sink, 3, ["x" * 100_000])  # of a task that was not told
    log.maintain()
    assert log.journal.chunk_names() == []
    assert values(log) == ["a"]


def test_the_id_of_a_sink_says_its_job_and_itself() -> None:
    job = "0123456789abcdef" * 2
    assert job_and_sink(producer_of(job, "to-the-log")) == (job, "to-the-log")
    assert job_and_sink("headrace-of-my-own") is None


def test_a_topic_that_is_not_there_is_told_at_the_start(log: Log) -> None:
    sink = sink_of(log, schema=MessageSerializationSchema("nowhere", SimpleStringSchema()))
    with pytest.raises(UnknownTopicError, match="no topic 'nowhere'"):
        sink.check_output(committing())


def test_a_topic_that_is_deleted_before_the_commit_ends_the_job(log: Log) -> None:
    sink = sink_of(log)
    committer = LogCommitter(log, committing())
    staged = written(sink, 1, ["a"])
    log.delete_topic("out")
    with pytest.raises(CommitRefusedError, match="does not take the output of epoch 1"):
        committer.commit(1, staged, 1_000)


def test_what_was_not_committed_is_removed(log: Log) -> None:
    writer = sink_of(log).create_writer(WriterContext("job", "sink", 0, 0, 1, Types.STRING()))
    writer.begin_epoch(WriterEpoch(1, 1_000))
    writer.write(Batch.of_rows(Types.STRING(), ["x" * 70_000_000], [NO_TIMESTAMP], [0]))
    assert len(log.journal.chunk_names()) == 1
    writer.abort()
    assert log.journal.chunk_names() == []
    assert writer.prepare_commit() == []


def test_at_least_once_is_visible_before_the_checkpoint(log: Log) -> None:
    sink = sink_of(log, DeliveryGuarantee.AT_LEAST_ONCE)
    assert sink.create_committer(committing()) is None
    assert written(sink, 1, ["a"]) == []
    assert written(sink, 1, ["a"]) == []
    assert values(log) == ["a", "a"]


def test_topics_keys_and_timestamps(log: Log) -> None:
    log.create_topic("odd")
    schema = MessageSerializationSchema(lambda n: "odd" if n % 2 else "out", Digits(), key=Digits())
    writer = sink_of(log, DeliveryGuarantee.AT_LEAST_ONCE, schema).create_writer(
        WriterContext("job", "sink", 0, 0, 1, Types.LONG())
    )
    writer.begin_epoch(WriterEpoch(1, 77))
    writer.write(Batch.of_rows(Types.LONG(), [1, 2, 3], [5, 6, NO_TIMESTAMP], [0, 0, 0]))
    writer.prepare_commit()
    log.journal.refresh()
    partition = TopicPartition("odd", 0)
    records = [r for batch in log.fetch(partition, 0)[0] for r in to_records(partition, batch)]
    assert [(r.key, r.value, r.timestamp) for r in records] == [(b"1", b"1", 5), (b"3", b"3", 77)]


def test_equal_keys_of_all_subtasks_come_to_one_partition(log: Log) -> None:
    sink = sink_of(log, DeliveryGuarantee.AT_LEAST_ONCE, MessageSerializationSchema("out", Digits(), key=Digits()))
    for subtask in range(4):
        written(sink, 1, ["k"], subtask)
    log.journal.refresh()
    assert sorted(log.end_offsets(log.partitions_of("out")).values()) == [0, 4]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_job_that_fails_and_goes_on(log: Log, tmp_path: Path, guarantee: DeliveryGuarantee) -> None:
    marker = tmp_path / "failed"

    def fails_once(number: int) -> str:
        if number == 70 and not marker.exists():
            marker.touch()
            raise OSError("only once")
        return f"{number:03}"

    settings = Configuration()
    for key, value in {
        "headrace.runtime": "local",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "headrace.epoch.max-records": "20",
        "headrace.epoch.target-duration": "60s",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        settings.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    numbers = env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(fails_once, Types.STRING()).sink_to(sink_of(log, guarantee))
    env.execute("numbers")
    assert marker.exists()
    expected = [f"{number:03}" for number in range(1, 101)]
    assert sorted(set(values(log))) == expected
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        assert values(log) == expected


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_dead_letters(log: Log, guarantee: DeliveryGuarantee) -> None:
    log.create_topic("bad")

    def topic(number: int) -> str:
        return "nowhere" if number == 3 else "out"

    bad = OutputTag("bad")
    builder = LogSink.builder().set_log(log.folder.locate("")).set_delivery_guarantee(guarantee)
    builder.set_record_serializer(MessageSerializationSchema(topic, Below7())).set_dead_letter(bad)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    letters = env.from_sequence(1, 9).sink_to(builder.build()).name("low").get_side_output(bad)
    told = MessageSerializationSchema("bad", SimpleStringSchema())
    letters.map("|".join, Types.STRING()).sink_to(sink_of(log, schema=told))
    counters = env.execute().get_all_accumulator_results()
    assert values(log) == ["1", "2", "4", "5", "6"]
    found = [value.decode() for value in log.read("bad").read_all().column("value").to_pylist()]
    assert found[0].startswith("low|3|UnknownTopicError: the log has no topic 'nowhere'")
    assert found[1:] == [f"low|{number}|ValueError: {number} is too high" for number in (7, 8, 9)]
    assert counters["low.numRecordsSendErrors"] == 4


def test_what_is_missing_or_wrong_is_told_at_the_line_of_the_program() -> None:
    with pytest.raises(InvalidProgramError, match=r"call set_log\(\)"):
        LogSink.builder().set_record_serializer(TEXTS).build()
    with pytest.raises(InvalidProgramError, match=r"call set_record_serializer\(\)"):
        LogSink.builder().set_log("log").build()
    with pytest.raises(InvalidTypeError, match="set_log takes a path or a URI, not 5"):
        LogSink.builder().set_log(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="the path is empty"):
        LogSink.builder().set_log("")
    with pytest.raises(InvalidTypeError, match="takes a MessageSerializationSchema"):
        LogSink.builder().set_record_serializer(SimpleStringSchema())  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="a topic is a name"):
        MessageSerializationSchema(7, SimpleStringSchema())  # type: ignore[arg-type]
    schema = MessageSerializationSchema(lambda row: None, SimpleStringSchema())  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidTypeError, match="gave None"):
        list(schema.encode(Batch.of_rows(Types.STRING(), ["a"], [0], [0]), {}.__getitem__))
