"""Changes that what operators keep does not survive are refused before a record is read or anything is written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.errors import StateCorruptedError, StateMigrationError
from headrace.common.watermark_strategy import TimestampAssigner
from headrace.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.aggregates import max
from headrace.datastream.state import ListStateDescriptor, ValueStateDescriptor
from headrace.datastream.window import CountTrigger, GlobalWindows
from headrace.jobmanager.recovery import check_declared
from headrace.state.state_file import RunHead
from headrace.state_processor import SavepointWriter

FROM = "execution.state-recovery.path"
DIRECTORY = "execution.checkpointing.dir"
SEEN: list[Any] = []
"""The records that functions have been called with."""


class Order(NamedTuple):
    item: str
    amount: int


class Sale(NamedTuple):
    """Another name, and no default."""

    item: str
    price: int


class Words(NamedTuple):
    """Another type."""

    item: str
    amount: str


class All(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield from map(str, elements)


class Counts(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(1)
        return []


def grouped(lefts: Any, rights: Any) -> Any:
    yield from ()


def noted(record: Any) -> Any:
    SEEN.append(record)
    return record


def key_of(record: Any) -> Any:
    return record[1]


class At(TimestampAssigner):
    """All at one time."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 1_000


TIMES = WatermarkStrategy.no_watermarks().with_timestamp_assigner(At())
HUNDRED = CountTrigger.of(100)
Make = Callable[[Any, str], Any]
OPERATORS: dict[str, Make] = {
    "windows": lambda orders, field: (
        orders.key_by("item").window(GlobalWindows.create()).trigger(HUNDRED).process(All(), Types.STRING())
    ),
    "aggregates": lambda orders, field: (
        orders.key_by("item").window(GlobalWindows.create()).trigger(HUNDRED).aggregate(max(field))
    ),
    "counts": lambda orders, field: orders.key_by("item").count_window(100).aggregate(max(field)),
    "a reduce": lambda orders, field: orders.key_by("item").reduce(lambda one, other: other),
    "a co-group": lambda orders, field: (
        orders.co_group(orders).where("item").equal_to("item").window(GlobalWindows.create()).trigger(HUNDRED)
        .apply(grouped, output_type=Types.STRING())
    ),
    "the key of a function": lambda orders, field: (
        orders.key_by(key_of, orders.get_type().field_types[1]).process(Counts(), Types.STRING())
    ),
}  # fmt: skip

STORED = {Order: Order("tea", 7), Sale: Sale("tea", 7), Words: Words("tea", "seven")}


def run(operator: str | Make, kind: Any, settings: dict[str, str], renamed: dict[str, str] | None = None) -> None:
    given = {"headrace.runtime": "local", "parallelism.default": "2", **settings}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    made = env.from_collection([STORED[kind]], Types.of(kind)).uid("orders")
    stamped = made.assign_timestamps_and_watermarks(TIMES).uid("times")
    orders = stamped.map(noted, Types.of(kind)).uid("noted")
    make = OPERATORS[operator] if isinstance(operator, str) else operator
    kept = make(orders, kind._fields[1]).uid("kept")
    if renamed is not None:
        kept.set_renamed_fields(renamed)
    kept.print().uid("out")
    env.execute("declared")


TOLD = {
    "windows": r"what windows hold was stored with another type",
    "aggregates": r"what windows hold was stored with another type",
    "counts": r"count windows were stored with other columns: 'max\(amount\)' was stored as int64 and is declared as",
    "a reduce": r"what is kept of each key was stored with another type",
    "a co-group": r"what windows hold was stored with another type.*the field 'left.amount' was stored as Long",
    "the key of a function": r"value state 'count' was stored with another key type: stored Long, declared String",
}


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("start", ["its own directory", "another directory", "a savepoint"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_what_does_not_fit_is_refused_before_anything_runs(operator: str, start: str, tmp_path: Path) -> None:
    first = tmp_path / "first"
    run(operator, Order, {DIRECTORY: str(first)})
    assert SEEN, "the program runs in this process"
    settings = {DIRECTORY: str(first)}
    if start != "its own directory":
        settings = {DIRECTORY: str(tmp_path / "second"), FROM: str(first)}
    if start == "a savepoint":
        settings[FROM] = SavepointWriter.from_existing_savepoint(first).write(tmp_path / "savepoint")
    SEEN.clear()
    before = files_in(tmp_path)
    with pytest.raises(StateMigrationError, match=TOLD[operator]) as error:
        run(operator, Words, settings)
    assert "uid kept" in str(error.value)
    assert "test_declared_state.py" in str(error.value)
    assert SEEN == []
    changed = {name for name in files_in(tmp_path).items() - before.items() if "manifests/" in name[0]}
    assert not changed


@pytest.mark.parametrize("operator", [name for name in OPERATORS if name != "the key of a function"])
def test_a_new_name_has_to_be_said(operator: str, tmp_path: Path) -> None:
    directory = {DIRECTORY: str(tmp_path)}
    run(operator, Order, directory)
    SEEN.clear()
    with pytest.raises(StateMigrationError, match="uid kept"):
        run(operator, Sale, directory)
    assert SEEN == []
    sides = ("left.", "right.") if operator == "a co-group" else ("",)
    run(operator, Sale, directory, {f"{side}amount": "price" for side in sides})


def test_windows_that_are_told_to_drop_are_no_obstacle(tmp_path: Path) -> None:
    run("windows", Order, {DIRECTORY: str(tmp_path)})
    run("windows", Words, {DIRECTORY: str(tmp_path), "execution.state-recovery.changed-windows": "kept=drop"})


class Waiting(FlatMapFunction, CheckpointedFunction):
    """Has a list of the subtask, and no keys."""

    def initialize_state(self, context: Any) -> None:
        self.waiting = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting", Types.STRING()))

    def snapshot_state(self, context: Any) -> None:
        pass

    def flat_map(self, value: Any) -> Any:
        yield str(value)


def test_an_operator_that_has_no_keys_any_more_leaves_what_they_had_behind(tmp_path: Path) -> None:
    run("the key of a function", Order, {DIRECTORY: str(tmp_path)})
    settings = {DIRECTORY: str(tmp_path), "execution.state-recovery.ignore-unclaimed-state": "true"}
    run(lambda orders, field: orders.flat_map(Waiting(), Types.STRING()), Order, settings)


def test_what_cannot_be_read_is_left_to_the_task_that_needs_it(caplog: pytest.LogCaptureFixture) -> None:
    def damaged() -> Iterator[RunHead]:
        raise StateCorruptedError("the state file 7 is missing")
        yield

    with caplog.at_level(logging.INFO):
        check_declared(None, None, damaged())  # type: ignore[arg-type] # nothing is asked of them
    assert "the state file 7 is missing" in caplog.text
