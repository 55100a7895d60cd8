"""Records that a sink cannot write go to its dead letters, and all others are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Configuration, Encoder, Types
from headrace.common.batch import Batch
from headrace.common.errors import FunctionRefusedError, InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.connectors.sink import DeliveryGuarantee, Sink, SinkWriter, WriterContext, encode_or_reject
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink
from tests.draws import draws

BAD = OutputTag("bad")


def encoded(batch: Batch) -> list[int]:
    if any(row < 0 for row in batch.rows):
        raise ValueError("below 0")
    return list(batch.rows)


def batch_of(rows: list[int]) -> Batch:
    times = np.zeros(len(rows), np.int64)
    return Batch(Types.LONG(), times, times, rows=rows)


@settings(deadline=None, max_examples=draws(60))
@given(st.lists(st.integers(-3, 9), max_size=60))
def test_only_what_is_bad_is_rejected(rows: list[int]) -> None:
    rejected: list[Any] = []
    parts = encode_or_reject(encoded, batch_of(rows), lambda record, error: rejected.append((record, str(error))))
    assert [row for part in parts for row in part] == [row for row in rows if row >= 0]
    assert rejected == [(row, "below 0") for row in rows if row < 0]


def test_what_is_no_fault_of_a_record_is_raised() -> None:
    def full(batch: Batch) -> bytes:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        encode_or_reject(full, batch_of([1, 2]), lambda record, error: pytest.fail("rejected"))


def test_a_bad_record_among_many_costs_few_calls() -> None:
    calls = []

    def counted(batch: Batch) -> list[int]:
        calls.append(len(batch))
        return encoded(batch)

    rows = [*range(500), -1, *range(500)]
    encode_or_reject(counted, batch_of(rows), lambda record, error: None)
    assert len(calls) < 25


class Half(Encoder):
    """Writes halves of even numbers."""

    def __init__(self) -> None:
        super().__init__(half)


def half(number: int) -> bytes:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return f"{number // 2}\n".encode()


def environment(runtime: str = "local") -> StreamExecutionEnvironment:
    usual = {
        "headrace.runtime": runtime,
        "parallelism.default": "2",
        "headrace.epoch.first-records": "7",
        "headrace.epoch.target-duration": "60s",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(usual))


def written(folder: Path) -> list[int]:
    return sorted(int(line) for path in folder.glob("[!.]*/*") for line in path.read_text().splitlines())


@pytest.mark.parametrize(
    ("runtime", "is_keyed"), [("local", False), ("local", True), pytest.param("spark", True, marks=pytest.mark.spark)]
)
def test_files(runtime: str, is_keyed: bool, tmp_path: Path) -> None:
    env = environment(runtime)
    numbers = env.from_sequence(0, 19)
    stream = numbers.key_by(lambda number: number % 3).map(lambda number: number, Types.LONG()) if is_keyed else numbers
    sink = FileSink.for_row_format(tmp_path / "out", Half()).set_dead_letter(BAD).build()
    letters = stream.sink_to(sink).name("halves").get_side_output(BAD)
    text = letters.map("|".join, Types.STRING())
    text.sink_to(FileSink.for_row_format(tmp_path / "bad", Encoder.simple_string_encoder()).build())
    counters = env.execute().get_all_accumulator_results()
    assert written(tmp_path / "out") == list(range(10))
    found = {line for path in (tmp_path / "bad").glob("*/*") for line in path.read_text().splitlines()}
    assert found == {f"halves|{number}|ValueError: {number} is odd" for number in range(1, 20, 2)}
    assert counters["halves.numRecordsSendErrors"] == 10


def test_without_dead_letters_the_job_fails(tmp_path: Path) -> None:
    env = environment()
    env.from_sequence(0, 3).sink_to(FileSink.for_row_format(tmp_path / "out", Half()).build())
    with pytest.raises(UserFunctionError, match="1 is odd"):
        env.execute()
    assert written(tmp_path / "out") == []


def test_dead_letters_that_nobody_reads_are_counted(tmp_path: Path) -> None:
    env = environment()
    sink = FileSink.for_row_format(tmp_path / "out", Half()).set_dead_letter(BAD).build()
    env.from_sequence(0, 3).sink_to(sink)
    assert env.execute().get_accumulator_result("numRecordsSendErrors") == 2
    assert written(tmp_path / "out") == [0, 1]


def test_dead_letters_as_tuples_and_in_windows_by_the_clock(tmp_path: Path) -> None:
    env = environment()
    tag = OutputTag("bad", Types.TUPLE([Types.STRING()] * 3))
    sink = FileSink.for_row_format(tmp_path / "out", Half()).set_dead_letter(tag).build()
    letters = env.from_sequence(0, 5).sink_to(sink).name("halves").get_side_output(tag)
    with letters.key_by(lambda letter: letter[0]).reduce(later).execute_and_collect() as found:
        assert list(found)[-1] == ("halves", "5", "ValueError: 5 is odd")


def later(one: Any, other: Any) -> Any:
    return max(one, other)


def test_side_outputs_that_a_sink_does_not_have_are_refused(tmp_path: Path) -> None:
    stream = environment().from_sequence(0, 3)
    with pytest.raises(InvalidProgramError, match="never writes to the side output 'bad'"):
        stream.print().get_side_output(BAD)
    sink = FileSink.for_row_format(tmp_path / "out", Half()).set_dead_letter(BAD).build()
    with pytest.raises(InvalidTypeError, match="leave the type of the tag out"):
        stream.sink_to(sink).get_side_output(OutputTag("bad", Types.LONG()))


class Late(Sink):
    """Rejects when it is too late for that."""

    dead_letter = BAD
    delivery_guarantee = DeliveryGuarantee.NONE

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Late(context)


class _Late(SinkWriter):
    def __init__(self, context: WriterContext) -> None:
        self._context = context

    def write(self, batch: Batch) -> None:
        pass

    def prepare_commit(self) -> Sequence[Any]:
        assert self._context.reject is not None
        self._context.reject(1, ValueError("too late"))
        return ()


def test_a_writer_rejects_while_it_writes() -> None:
    env = environment()
    env.from_sequence(0, 3).sink_to(Late())
    with pytest.raises(FunctionRefusedError, match="Late rejects a record when no batch is written"):
        env.execute()
