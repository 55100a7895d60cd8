"""What writers of sinks are told of an epoch, and the state that they may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.batch import Batch
from headrace.common.configuration import Configuration
from headrace.common.errors import StateMigrationError, UserFunctionError
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.sink import (
    DeliveryGuarantee,
    Sink,
    SinkWriter,
    StatefulSinkWriter,
    SupportsWriterState,
    WriterContext,
    WriterEpoch,
)
from headrace.datastream import StreamExecutionEnvironment
from headrace.testing import JobHarness

TOLD: list[tuple[Any, ...]] = []
"""What all writers were told, each with its subtask."""


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    TOLD.clear()


def told() -> list[tuple[Any, ...]]:
    found = TOLD[:]
    TOLD.clear()
    return found


class _Teller(SinkWriter):
    def __init__(self, context: WriterContext) -> None:
        self._context = context

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._tell("begin", epoch.number, epoch.watermark)

    def write(self, batch: Batch) -> None:
        self._tell("write", *batch.rows)

    def write_watermark(self, watermark: int) -> None:
        self._tell("watermark", watermark)

    def flush(self, end_of_input: bool) -> None:
        self._tell("flush", end_of_input)

    def prepare_commit(self) -> Sequence[Any]:
        self._tell("prepare")
        return []

    def _tell(self, *what: Any) -> None:
        TOLD.append(what if self._context.parallelism == 1 else (self._context.subtask, *what))


class Telling(Sink[int]):
    def __init__(self, *, takes_watermarks: bool = False) -> None:
        self._takes_watermarks = takes_watermarks

    @property
    def takes_watermarks(self) -> bool:
        return self._takes_watermarks

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return DeliveryGuarantee.AT_LEAST_ONCE

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Teller(context)


class _Counter(_Teller, StatefulSinkWriter[tuple[int, int]]):
    """Counts the records of each remainder; an element is a remainder and a count."""

    def __init__(self, context: WriterContext, recovered: Sequence[tuple[int, int]]) -> None:
        super().__init__(context)
        self._counts: dict[int, int] = {}
        for rest, count in recovered:
            self._counts[rest] = self._counts.get(rest, 0) + count
        self._tell("restored" if recovered else "created", *sorted(self._counts.items()))

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._now = epoch.processing_time
        super().begin_epoch(epoch)

    def write(self, batch: Batch) -> None:
        super().write(batch)
        for number in batch.rows:
            self._counts[number % 3] = self._counts.get(number % 3, 0) + 1

    def snapshot_state(self, epoch: int) -> Iterable[tuple[int, int]]:
        return self._counts.items()

    def wake_up_time(self) -> int | None:
        return self._now + 1_000 if self._counts and self._now < 3_000 else None


class Counting(Telling, SupportsWriterState[tuple[int, int]]):
    state_type = Types.TUPLE([Types.LONG(), Types.LONG()])

    @property
    def writer_state_type(self) -> TypeInformation:
        return self.state_type

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Counter(context, [])

    def restore_writer(self, context: WriterContext, recovered_state: Sequence[tuple[int, int]]) -> _Counter:
        return _Counter(context, recovered_state)


class CountingTexts(Counting):
    state_type = Types.TUPLE([Types.STRING(), Types.LONG()])


class Unfitting(Counting):
    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Teller(context)


def job(sink: Sink) -> Any:
    def build(harness: JobHarness) -> None:
        harness.add_source("numbers", Types.LONG()).sink_to(sink).name("sink").uid("sink")

    return build


def test_a_writer_is_told_of_epochs_that_have_records() -> None:
    with JobHarness(job(Telling()), fresh_functions=False) as harness:
        harness.push_all("numbers", [1, 2], timestamps=[10, 20])
        harness.advance_watermark("numbers", 30)
        harness.run_epoch()
        assert told() == [("begin", 1, -(2**63)), ("write", 1, 2), ("flush", False), ("prepare",)]
        harness.run_epoch()
        assert told() == []
        harness.finish()
        assert told() == []


def test_a_writer_is_told_of_the_end_of_the_input() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    )
    env.from_collection([1, 2], Types.LONG()).sink_to(Telling()).uid("sink")
    env.execute()
    assert told()[1:] == [("write", 1, 2), ("flush", True), ("prepare",)]


def test_a_sink_may_take_watermarks() -> None:
    with JobHarness(job(Telling(takes_watermarks=True)), fresh_functions=False) as harness:
        harness.push_all("numbers", [1, 2], timestamps=[10, 20])
        harness.advance_watermark("numbers", 30)
        harness.run_epoch()
        found = [what for what in told() if what[0] not in ("begin", "prepare")]
        assert found == [("write", 1, 2), ("flush", False), ("watermark", 30), ("flush", False)]
        harness.run_epoch()
        (begin, *rest) = told()
        assert (begin[0], begin[2]) == ("begin", 30)
        assert rest == [("flush", False), ("prepare",)]
        harness.advance_watermark("numbers", 40)
        harness.run_epoch()
        assert ("watermark", 40) in told(), "there were no records"
        harness.finish()
        assert told()[1:] == [("watermark", 2**63 - 1), ("flush", True), ("prepare",)]


def test_the_watermark_is_that_of_all_splits() -> None:
    def build(harness: JobHarness) -> None:
        numbers = harness.add_source("numbers", Types.LONG(), splits=2)
        numbers.sink_to(Telling(takes_watermarks=True)).uid("sink")

    with JobHarness(build) as harness:
        harness.push("numbers", 1, timestamp=10, split=0)
        harness.push("numbers", 2, timestamp=20, split=1)
        harness.advance_watermark("numbers", 50, split=0)
        harness.run_epoch()
        assert [what for what in told() if what[0] == "watermark"] == []
        harness.advance_watermark("numbers", 40, split=1)
        harness.run_epoch()
        assert [what for what in told() if what[0] == "watermark"] == [("watermark", 40)]


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_state_goes_on_from_epoch_to_epoch(is_made_anew: bool) -> None:
    with JobHarness(job(Counting()), fresh_functions=is_made_anew) as harness:
        harness.push_all("numbers", [1, 2, 4])
        harness.run_epoch()
        assert told()[0] == ("created",)
        harness.run_epoch()
        harness.push("numbers", 2)
        harness.run_epoch()
        restored = [what for what in told() if what[0] == "restored"]
        assert restored == ([("restored", (1, 2), (2, 1))] * 2 if is_made_anew else [])
        checkpoint = harness.checkpoint()
    with JobHarness(job(Counting()), restore=checkpoint) as harness:
        told()
        harness.run_epoch()
        assert told()[0] == ("restored", (1, 2), (2, 2))


def test_elements_are_dealt_out_to_other_numbers_of_writers() -> None:
    with JobHarness(job(Counting())) as harness:
        harness.push_all("numbers", [0, 1, 1, 2])
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    for parallelism, elements in ((3, [[(0, 1)], [(1, 2)], [(2, 1)]]), (2, [[(0, 1), (1, 2)], [(2, 1)]])):
        with JobHarness(job(Counting()), parallelism=parallelism, restore=checkpoint) as harness:
            told()
            harness.run_epoch()
            found = {what[0]: list(what[2:]) for what in told() if what[1] == "restored"}
            assert found == dict(enumerate(elements))
            checkpoint = harness.checkpoint()
    with JobHarness(job(Counting()), restore=checkpoint) as harness:
        told()
        harness.run_epoch()
        assert told()[0] == ("restored", (0, 1), (1, 2), (2, 1))


def test_a_writer_asks_for_an_epoch_by_the_clock() -> None:
    with JobHarness(job(Counting())) as harness:

        def due() -> int | None:
            manifest = harness._manager.manifest
            assert manifest is not None
            return manifest.stages[0].partitions[0].earliest_timer

        harness.run_epoch()
        assert due() is None
        harness.push("numbers", 1)
        harness.run_epoch()
        assert due() == 1_000
        harness.advance_processing_time(5_000)
        harness.run_epoch()
        assert due() is None


def test_state_of_another_type_is_refused() -> None:
    with JobHarness(job(Counting())) as harness:
        harness.push("numbers", 1)
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    with (
        pytest.raises(StateMigrationError, match=r"'sink'.*the state of the writers was stored with another type"),
        JobHarness(job(CountingTexts()), restore=checkpoint) as harness,
    ):
        harness.run_epoch()
    with (
        pytest.raises(StateMigrationError, match="operator list state of operators with uid sink"),
        JobHarness(job(Telling()), restore=checkpoint) as harness,
    ):
        harness.run_epoch()


def test_a_writer_that_has_no_state_is_refused_where_the_sink_says_so() -> None:
    with (
        pytest.raises(UserFunctionError, match=r"a _Teller, is no StatefulSinkWriter"),
        JobHarness(job(Unfitting())) as harness,
    ):
        harness.run_epoch()
