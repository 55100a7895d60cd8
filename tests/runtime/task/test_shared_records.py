"""What a function does to a record, no other branch of the stream sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.common import Configuration, Row, Types
from headrace.common.errors import UserFunctionError
from headrace.datastream import (
    CoMapFunction,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)


@dataclass
class Reading:
    sensor: str
    count: int


ROW = Types.ROW_NAMED(["sensor", "count"], [Types.STRING(), Types.LONG()])


def row() -> Row:
    return Row(sensor="a", count=0)


def reading() -> Reading:
    return Reading("a", 0)


def mapping() -> dict[str, Any]:
    return {"sensor": "a", "count": 0}


KINDS = {"row": (row, ROW), "dataclass": (reading, Types.of(Reading)), "pickled": (mapping, None)}


def counted(record: Any) -> int:
    """Changes the record, as programs do that add a field, say."""
    if isinstance(record, dict):
        record["count"] += 1
        return int(record["count"])
    record.count += 1
    return int(record.count)


def sensor_of(record: Any) -> str:
    return str(record["sensor"] if isinstance(record, dict) else record.sensor)


class CountedTwice(CoMapFunction):
    def map1(self, value: Any) -> int:
        return counted(value)

    def map2(self, value: Any) -> int:
        return counted(value)


def in_place(records: DataStream) -> DataStream:
    return records.map(counted, Types.LONG())


def behind_a_shuffle(records: DataStream) -> DataStream:
    return records.key_by(sensor_of, key_type=str).map(counted, Types.LONG())


@pytest.fixture(params=list(KINDS))
def records(request: pytest.FixtureRequest) -> DataStream:
    """Three records of some kind, made by a function, so that they are Python objects when they reach the branches."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    env.set_parallelism(2)
    make, type_ = KINDS[request.param]
    return env.from_sequence(1, 3).map(lambda _: make(), type_)


@pytest.mark.parametrize("first", [in_place, behind_a_shuffle])
@pytest.mark.parametrize("second", [in_place, behind_a_shuffle])
def test_two_branches(
    records: DataStream, first: Callable[[DataStream], DataStream], second: Callable[[DataStream], DataStream]
) -> None:
    assert list(first(records).union(second(records)).execute_and_collect()) == [1] * 6


MIRROR = OutputTag("mirror")


class Mirrors(ProcessFunction):
    """Emits each record to the main output and to a side output."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value
        yield MIRROR, value


class MirrorsOfKeys(KeyedProcessFunction):
    """The same by key."""

    process_element = Mirrors.process_element


@pytest.mark.parametrize("is_keyed", [False, True])
def test_a_record_in_both_outputs(records: DataStream, is_keyed: bool) -> None:
    if is_keyed:
        mirrored = records.key_by(sensor_of, key_type=str).process(MirrorsOfKeys())
    else:
        mirrored = records.process(Mirrors())
    both = in_place(mirrored).union(in_place(mirrored.get_side_output(MIRROR)))
    assert list(both.execute_and_collect()) == [1] * 6


def test_a_record_that_is_emitted_twice_is_one_object_to_the_next_function(records: DataStream) -> None:
    """Nothing is copied for a function that is chained; behind a shuffle those of a declared type are two records."""
    twice = records.flat_map(lambda record: [record, record], records.get_type())
    assert sorted(in_place(twice).execute_and_collect()) == [1] * 3 + [2] * 3
    has_columns = records.get_type().arrow_type is not None
    assert sorted(behind_a_shuffle(twice).execute_and_collect()) == [1] * 3 + [1 if has_columns else 2] * 3


def test_a_stream_with_itself(records: DataStream) -> None:
    assert list(records.connect(records).map(CountedTwice(), Types.LONG()).execute_and_collect()) == [1] * 6


def test_branches_that_read_what_was_read_as_columns() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    read = env.from_collection([row(), row()], ROW)
    assert list(in_place(read).union(in_place(read)).execute_and_collect()) == [1] * 4


class Once:
    """Cannot be copied."""

    def __reduce__(self) -> Any:
        raise TypeError("there is only one")

    def __repr__(self) -> str:
        return "Once()"


class OnceInBothOutputs(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        once = Once()
        yield once
        yield MIRROR, once


@pytest.mark.parametrize("is_keyed", [False, True])
def test_a_record_in_both_outputs_that_cannot_be_copied_is_told(is_keyed: bool) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    numbers: Any = env.from_sequence(1, 1)
    both = (numbers.key_by(lambda _: 0) if is_keyed else numbers).process(
        KeyedOnce() if is_keyed else OnceInBothOutputs()
    )
    both.name("made").get_side_output(MIRROR).print()
    told = r"operator 'made'(.|\n)*to a side output(.|\n)*there is only one(.|\n)*record: Once\(\)(.|\n)*defined at"
    with pytest.raises(UserFunctionError, match=told):
        env.execute()


class KeyedOnce(KeyedProcessFunction):
    process_element = OnceInBothOutputs.process_element


def test_a_record_that_cannot_be_copied_is_told() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    made = env.from_sequence(1, 1).map(lambda _: Once()).name("made")
    both = made.map(lambda _: 1, Types.LONG()).union(made.map(lambda _: 2, Types.LONG()))
    with pytest.raises(UserFunctionError, match=r"operator 'made'(.|\n)*each gets a copy, .*there is only one"):
        list(both.execute_and_collect())
