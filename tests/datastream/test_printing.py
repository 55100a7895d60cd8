"""What ``print()`` of a program shows: only types that the program declares change how records look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Row, Time, Types, WatermarkStrategy
from headrace.common.errors import InvalidTypeError
from headrace.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from headrace.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.datastream import DataStream

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
LATE = OutputTag("late", PAIR)


class _Aside(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield LATE, value
        yield value


def _annotated(value: tuple[str, int]) -> tuple[str, int]:
    return value


def _windows(stream: DataStream) -> DataStream:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1")
    keyed = stream.assign_timestamps_and_watermarks(times).key_by(lambda pair: pair[0])
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda first, _: first)


@pytest.mark.parametrize(
    ("build", "line"),
    [
        (lambda s: s, "(a,1)"),
        (lambda s: s.filter(bool), "(a,1)"),
        (lambda s: s.key_by(lambda pair: pair[0]), "(a,1)"),
        (lambda s: s.key_by(lambda pair: pair[0]).reduce(lambda one, _: one), "(a,1)"),
        (lambda s: s.process(_Aside()).get_side_output(LATE), "(a,1)"),
        (_windows, "(a,1)"),
        (lambda s: s.map(lambda pair: pair), "('a', 1)"),
        (lambda s: s.map(_annotated), "('a', 1)"),
        (lambda s: s.map(_annotated, output_type=PAIR), "(a,1)"),
        (lambda s: s.process(_Aside()), "('a', 1)"),
        (lambda s: s.map(lambda pair: Row(*pair)), "<Row('a', 1)>"),
        (lambda s: s.map(lambda pair: Row(*pair), output_type=Types.ROW([str, int])), "+I[a,1]"),
    ],
)
def test_of_a_declared_collection(
    capsys: pytest.CaptureFixture[str], build: Callable[[DataStream], DataStream], line: str
) -> None:
    env = _local_environment()
    build(env.from_collection([("a", 1)], PAIR)).print()
    env.execute()
    assert capsys.readouterr().out == f"{line}\n"


def test_of_a_collection_whose_type_is_found_out(capsys: pytest.CaptureFixture[str]) -> None:
    env = _local_environment()
    env.from_collection([("a", True)]).print()
    env.execute()
    assert capsys.readouterr().out == "('a', True)\n"


def test_what_cannot_begin_a_line() -> None:
    with pytest.raises(InvalidTypeError, match="print takes a str, not 5"):
        _local_environment().from_collection([1]).print(5)  # type: ignore[arg-type]


def _local_environment() -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("headrace.runtime", "local").set_string("parallelism.default", "1")
    return StreamExecutionEnvironment.get_execution_environment(configuration)
