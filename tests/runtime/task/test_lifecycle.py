"""Functions are opened, kept, dropped and closed as they should, and failures are told as they happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headrace.common.batch import Batch
from headrace.common.errors import UserFunctionError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.connectors.sink import SinkWriter, WriterContext, WriterEpoch
from headrace.connectors.source import SourceReader, SourceRecords
from headrace.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from headrace.datastream.state import ValueStateDescriptor
from headrace.testing import JobHarness
from headrace.testing.pushed import ManualSource, RecordingSink

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
SIDE = OutputTag("side", PAIR)

events: list[str] = []


@pytest.fixture(autouse=True)
def no_events() -> None:
    events.clear()


class Watched(MapFunction):
    def __init__(self, name: str) -> None:
        self._name = name

    def open(self, runtime_context: RuntimeContext) -> None:
        events.append(f"open {self._name} {runtime_context.get_index_of_this_subtask()}")

    def close(self) -> None:
        events.append(f"close {self._name}")

    def map(self, value: Any) -> Any:
        if value[1] < 0:
            raise ValueError("below zero")
        return value


def chain(job: JobHarness) -> None:
    stream = job.add_source("in", PAIR).map(Watched("first"), PAIR).name("first").uid("f")
    counted = stream.key_by("f0").process(Count(), PAIR).name("count").uid("c")
    again = counted.map(Watched("second"), PAIR).name("second").uid("s")
    job.add_sink("out", again.key_by("f1").sum("f1"))
    job.add_sink("side", counted.get_side_output(SIDE))


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_processing_time_timer(1000 + value[1])
        yield value
        yield SIDE, value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield "timer", timestamp


def test_functions_are_kept_from_epoch_to_epoch() -> None:
    with JobHarness(chain, fresh_functions=False) as job:
        for value in range(3):
            job.push("in", ("a", value))
            job.run_epoch()
        assert sorted(events) == ["open first 0", "open second 0"]
    assert sorted(events[2:]) == ["close first", "close second"]


def test_functions_are_made_anew_where_a_test_wants_it() -> None:
    with JobHarness(chain, fresh_functions=True) as job:
        for _ in range(2):
            job.run_epoch()
        assert events.count("open first 0") == events.count("close first") == 2


def test_functions_are_closed_at_the_end_of_input() -> None:
    with JobHarness(chain, parallelism=2, fresh_functions=False) as job:
        job.push("in", ("a", 1))
        job.finish()
        assert events.count("close first") == events.count("close second") == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("batch", [1, 20_000])
def test_what_fails_before_a_shuffle_is_told(parallelism: int, batch: int) -> None:
    """However much has been sent on already: later tasks must not complain about what they miss."""
    with JobHarness(chain, parallelism=parallelism) as job:
        job.push_all("in", [("a", number) for number in range(batch)])
        job.push("in", ("b", -7))
        with pytest.raises(UserFunctionError) as caught:
            job.run_epoch()
    message = str(caught.value)
    assert "operator 'first' (uid f, subtask 0) failed" in message
    assert "ValueError: below zero" in message
    assert "test_lifecycle.py" in message
    assert "in map" in message
    assert "record: ('b', -7)" in message
    assert "in chain" in message, "the line that defines the operator"
    assert events.count("close first") == parallelism
    assert job.results("out") == []


def later_failure(job: JobHarness) -> None:
    """The second of three stages fails after it has sent a lot."""
    stream = job.add_source("in", PAIR)
    summed = stream.key_by("f0").process(Count(), PAIR)
    job.add_sink("out", summed.map(Watched("late"), PAIR).name("late").uid("l").key_by("f0").sum("f1"))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_what_fails_between_two_shuffles_is_told(parallelism: int) -> None:
    with JobHarness(later_failure, parallelism=parallelism) as job:
        job.push_all("in", [(str(number % 7), number) for number in range(30_000)])
        job.push("in", ("b", -7))
        with pytest.raises(UserFunctionError, match=r"(?s)'late' \(uid l.*below zero"):
            job.run_epoch()
    assert len([event for event in events if event.startswith("open")]) == events.count("close late") == parallelism


@pytest.mark.parametrize("records", [1, 10_000])
@pytest.mark.parametrize("shuffles", [0, 1])
def test_a_failing_key_function_is_told(records: int, shuffles: int) -> None:
    def build(job: JobHarness) -> None:
        stream = job.add_source("in", PAIR).map(Watched("before"), PAIR).name("before").uid("b")
        if shuffles:
            stream = stream.key_by("f0").process(Count(), PAIR).name("before").uid("b2")
        job.add_sink("out", stream.key_by(lambda pair: 1 // pair[1], Types.LONG()).sum("f1"))

    with JobHarness(build) as job:
        job.push_all("in", [("a", 1)] * (records - 1))
        job.push("in", ("b", 0))
        with pytest.raises(UserFunctionError) as caught:
            job.run_epoch()
    assert "operator 'before' (uid b" in str(caught.value)
    assert "ZeroDivisionError" in str(caught.value)
    assert "record: ('b', 0)" in str(caught.value)
    assert "in <lambda>" in str(caught.value)


def test_a_record_that_does_not_fit_its_declared_type_names_the_operator() -> None:
    def build(job: JobHarness) -> None:
        stream = job.add_source("in", PAIR).map(lambda pair: (pair[0], "text"), PAIR).name("liar")
        job.add_sink("out", stream.key_by("f0").sum("f1"))

    with JobHarness(build) as job:
        job.push("in", ("a", 1))
        with pytest.raises(UserFunctionError, match="'liar'"):
            job.run_epoch()


class FullDisk(RecordingSink):
    def create_writer(self, context: WriterContext) -> SinkWriter:
        raise OSError("the disk is full")


class LoggedWriter(SinkWriter):
    """Logs what it is told; the writer of a recording sink does the work."""

    def __init__(self, context: WriterContext) -> None:
        events.append("create")
        self._writer = RecordingSink().create_writer(context)

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        events.append(f"begin {epoch.number}")

    def write(self, batch: Batch) -> None:
        events.append("write")
        if any(value < 0 for _, value in batch.rows):
            raise ValueError("below zero")
        self._writer.write(batch)

    def prepare_commit(self) -> Sequence[Any]:
        events.append("prepare")
        return self._writer.prepare_commit()

    def abort(self) -> None:
        events.append("abort")

    def close(self) -> None:
        events.append("close")


class LoggedSink(RecordingSink):
    def create_writer(self, context: WriterContext) -> SinkWriter:
        return LoggedWriter(context)


def test_a_writer_lives_as_long_as_its_task_and_is_told_of_epochs() -> None:
    def build(job: JobHarness) -> None:
        job.add_source("in", PAIR).sink_to(LoggedSink())

    with JobHarness(build, fresh_functions=False) as job:
        job.push("in", ("a", 1))
        job.run_epoch()
        first = int(events[1].split()[1])
        job.run_epoch()  # without records
        job.push("in", ("a", 2))
        job.run_epoch()
        assert events == [
            *("create", f"begin {first}", "write", "prepare"),
            *(f"begin {first + 2}", "write", "prepare"),
        ]
    assert events[-1] == "close"
    assert events.count("close") == 1


def test_a_writer_whose_epoch_fails_is_told_and_closed() -> None:
    def build(job: JobHarness) -> None:
        job.add_source("in", PAIR).sink_to(LoggedSink())

    with JobHarness(build, fresh_functions=False) as job:
        job.push("in", ("a", -1))
        with pytest.raises(UserFunctionError, match="below zero"):
            job.run_epoch()
    assert events[2:] == ["write", "abort", "close"]


class LoggedReader(SourceReader):
    def __init__(self, reader: SourceReader) -> None:
        events.append("open reader")
        self._reader = reader

    def read(self, piece: Any) -> Iterator[SourceRecords]:
        events.append("read")
        return self._reader.read(piece)

    def close(self) -> None:
        events.append("close reader")


def test_a_reader_lives_as_long_as_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ManualSource.create_reader
    monkeypatch.setattr(ManualSource, "create_reader", lambda source: LoggedReader(original(source)))
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", PAIR)), fresh_functions=False) as job:
        for number in range(3):
            job.push("in", ("a", number))
            job.run_epoch()
    assert events == ["open reader", "read", "read", "read", "close reader"]


def test_a_fault_of_the_machine_is_not_the_programs() -> None:
    def build(job: JobHarness) -> None:
        stream = job.add_source("in", PAIR).map(Watched("first"), PAIR)
        stream.key_by("f0").process(Count(), PAIR).map(Watched("second"), PAIR).sink_to(FullDisk())

    with JobHarness(build) as job:
        job.push("in", ("a", 1))
        with pytest.raises(OSError, match="the disk is full"):
            job.run_epoch()
    assert sorted(events) == ["close first", "close second", "open first 0", "open second 0"]


def test_what_a_processing_time_timer_emits_reaches_everything_behind_it() -> None:
    """It fires before anything else in its epoch, when the operators behind must have begun theirs."""

    def build(job: JobHarness) -> None:
        counted = job.add_source("in", PAIR).key_by("f0").process(Count(), PAIR)
        job.add_sink("chained", counted.map(lambda pair: pair, PAIR))
        job.add_sink("behind", counted.key_by("f0").sum("f1"))

    with JobHarness(build) as job:
        job.push("in", ("a", 1))
        job.run_epoch()
        job.set_processing_time(1001)
        job.run_epoch()
        assert job.results("chained") == [("a", 1), ("timer", 1001)]
        assert job.results("behind") == [("a", 1), ("timer", 1001)]
        epochs = job.counters()["numEpochs"]
        job.run_epoch()
        assert job.results("chained") == [("a", 1), ("timer", 1001)]
        assert job.counters()["numEpochs"] == epochs + 1
