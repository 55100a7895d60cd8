"""How fast the kernels of windows and aggregates are on one core: ``python benchmarks/micro_windows.py``.

Prints milliseconds (the best and the median of several runs) and millions of rows a second.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.typeinfo import Types
from headrace.common.types import RowKind
from headrace.datastream.aggregates import count, max, sum
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.group_aggregate import GroupAggregateOperator
from headrace.operators.window.columnar.accumulators import Accumulators, Chunk, ColumnarWindowLayout
from headrace.operators.window.columnar.time_windows import AlignedWindowOperator
from headrace.operators.window.general.ordered_operator import window_operator
from headrace.operators.window.general.window_operator import CalledWindows
from headrace.state.hashmap_backend import HashMapOperatorStates
from headrace.state.keys import KeyCodec
from headrace.state.runs import ALL_HASHES, RunStore
from headrace.windowing.assigners import TumblingEventTimeWindows
from headrace.windowing.definition import WindowDefinition, WindowFunctions
from headrace.windowing.intervals import AlignedWindows
from headrace.windowing.triggers import EventTimeTrigger

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 250_000
KINDS = {"int": (Types.LONG(), pa.int64()), "string": (Types.STRING(), pa.string())}


class Sink:
    """An output that only counts."""

    def __init__(self) -> None:
        self.rows = 0

    def emit(self, batch: Batch) -> None:
        self.rows += len(batch)

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        self.rows += len(batch)

    def advance_watermark(self, watermark: int) -> None:
        pass


class Case:
    """One kind and number of keys, with records in ten windows of a minute."""

    def __init__(self, kind: str, keys: int) -> None:
        self.name = f"{keys:>9,} {kind} keys"
        self.rng = np.random.default_rng(1)
        self.keys = keys
        key_type, self.arrow_type = KINDS[kind]
        self.type = Types.ROW_NAMED(["key", "value"], [key_type, Types.DOUBLE()])
        self.codec = KeyCodec.for_type(key_type)
        self.layout = ColumnarWindowLayout.of(self.type, self.codec, [count(), sum("value")], ["key"])

    def batch(self, rows: int = ROWS, start: int = 0, span: int = 20_000) -> KeyedBatch:
        """Random records, whose time rises."""
        numbers = self.rng.integers(0, self.keys, rows)
        names = numbers if self.arrow_type == pa.int64() else [f"user-{n}" for n in numbers.tolist()]
        keys = pa.array(names, self.arrow_type)
        columns = pa.record_batch([keys, pa.array(self.rng.random(rows) * 100)], names=["key", "value"])
        times = start + np.sort(self.rng.integers(0, span, rows))
        batch = Batch(self.type, times, np.full(rows, start - 1), columns=columns)
        return KeyedBatch.of(batch, self.codec.from_array(keys))

    def chunk(self, batch: KeyedBatch) -> Chunk:
        """The same records in windows of a minute."""
        ends = batch.timestamps // 60_000 * 60_000 + 60_000
        columns = {1: batch.columns.column(1)}
        return Chunk(ends, batch.keys.hashes, batch.keys.values, columns, np.arange(len(batch)))

    def opened(self, operator: Any) -> Any:
        """The operator, ready for an epoch."""
        stores: dict[str, RunStore] = {}
        state = HashMapOperatorStates("w", lambda name: stores.setdefault(name, RunStore(name, ALL_HASHES)))
        state.bind_key_codec(self.codec)
        self.sink = Sink()
        operator.open(OperatorContext("w", "w", 0, 1, 128, UNKNOWN_CALL_SITE, optional_state=state), self.sink)
        return operator


def measure(what: str, rows: int, run: Callable[[], object], repeats: int = 9) -> None:
    """Prints the time that ``run`` takes."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    best, middle = min(times), statistics.median(times)
    print(f"{what:<58} {best * 1e3:8.1f} {middle * 1e3:8.1f} ms {rows / best / 1e6:8.1f} M rows/s")


def partial_aggregation(case: Case) -> None:
    """Sorting by window and key, counting and summing, against pyarrow's ``group_by``."""
    batch = case.batch()
    chunk = case.chunk(batch)
    measure(f"{case.name}: partial count, sum", ROWS, lambda: Accumulators.of_chunk(case.layout.aggregators, chunk))
    table = pa.table({"end": chunk.ends, "key": chunk.keys, "value": chunk.columns[1]})
    aggregations = [("value", "count"), ("value", "sum")]
    group = lambda: table.group_by(["end", "key"], use_threads=False).aggregate(aggregations)  # noqa: E731
    measure(f"{case.name}: the same by pyarrow's group_by (inexact sums)", ROWS, group)


def epochs_of_operator(case: Case) -> None:
    """A whole epoch of the operator without a firing: records in, a run out."""
    batches = [case.batch(start=20_000 * i) for i in range(5)]
    operator = case.opened(AlignedWindowOperator(case.layout, AlignedWindows(3_600_000, 3_600_000)))
    numbers = iter(range(100))

    def epoch() -> None:
        number = next(numbers)
        operator.begin_epoch(EpochScope(number, 0))
        operator.process(0, batches[number % 5])
        operator.end_epoch()

    measure(f"{case.name}: operator, an epoch of {ROWS:,} records", ROWS, epoch)


def changelog(case: Case) -> None:
    """Aggregates of all records of a key, of which each third takes the one before it back."""
    aggregates = [count(), sum("value"), max("value")]
    layout = ColumnarWindowLayout.of(case.type, case.codec, aggregates, ["key"], window_names=(), retracts=True)
    batch = case.batch()
    rows = np.arange(ROWS) - (np.arange(ROWS) % 3 == 2)
    kinds = np.where(np.arange(ROWS) % 3 == 2, RowKind.DELETE.value, 0).astype(np.int8)
    columns = batch.columns.take(pa.array(rows))
    changes = Batch(case.type, batch.timestamps, batch.watermarks, columns=columns, kinds=kinds)
    given = KeyedBatch.of(changes, batch.keys.take(rows))
    operator = case.opened(GroupAggregateOperator(layout, update_before=True, is_batch=False))
    numbers = iter(range(100))

    def epoch() -> None:
        operator.begin_epoch(EpochScope(next(numbers), 0))
        operator.process(0, given)
        operator.advance_watermark(0)
        operator.end_epoch()

    measure(f"{case.name}: count, sum, max of a changelog, an epoch", ROWS, epoch, repeats=5)


def firing(case: Case, runs: int = 6) -> None:
    """Merging the runs of several epochs, and making the output."""
    tables = [Accumulators.of_chunk(case.layout.aggregators, case.chunk(case.batch(span=60_000))) for _ in range(runs)]
    rows = 0
    for table in tables:
        rows += len(table)
    operators = []
    for _ in range(5):
        operator = case.opened(AlignedWindowOperator(case.layout, AlignedWindows(60_000, 60_000)))
        for epoch, table in enumerate(tables):
            operator.begin_epoch(EpochScope(epoch, 0))
            operator._store._table.append(table.to_batch(case.layout.state_schema))
            operator.end_epoch()
        operator.begin_epoch(EpochScope(runs, 0))
        operators.append(operator)
    remaining = iter(operators)
    what = f"{case.name}: firing of {rows:,} accumulators in {runs} runs"
    measure(what, rows, lambda: next(remaining).advance_watermark(10**6), repeats=5)


def rows_one_by_one(case: Case) -> None:
    """The operator for Python functions: a reduce."""
    batch = case.batch(100_000)
    rows = batch.rows
    given = KeyedBatch.of(Batch.of_rows(case.type, rows, batch.timestamps, batch.watermarks), batch.keys)

    def epoch() -> None:
        minutes = WindowDefinition(TumblingEventTimeWindows.of(60_000), EventTimeTrigger.create())
        functions = WindowFunctions(reduce_function=lambda a, b: b)
        operator = case.opened(window_operator(CalledWindows(minutes, functions, case.type, case.type, {})))
        operator.begin_epoch(EpochScope(0, 0))
        operator.process(0, given)
        operator.advance_watermark(10**6)

    measure(f"{case.name}: reduce, row by row, 100,000 records", 100_000, epoch, repeats=3)


def main() -> None:
    """All figures."""
    pa.set_cpu_count(1)
    print(f"{'':<58} {'best':>8} {'median':>8}")
    for kind in KINDS:
        for keys in (10_000, 1_000_000):
            case = Case(kind, keys)
            partial_aggregation(case)
            epochs_of_operator(case)
            changelog(case)
            firing(case)
            rows_one_by_one(case)


if __name__ == "__main__":
    main()
