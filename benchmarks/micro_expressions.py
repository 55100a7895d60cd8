"""Expressions beside functions, on one core: ``python benchmarks/micro_expressions.py``.

Records come as columns, as from a file or a shuffle. Prints milliseconds a batch (the best of several runs by turns).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.typeinfo import Types
from headrace.datastream.streams.keying import key_of
from headrace.exchange.sender import keys_of
from headrace.expressions import bind, col
from headrace.operators.base import OperatorContext
from headrace.operators.stateless import ColumnFilterOperator, FilterOperator, MapOperator, SelectOperator

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.operators.base import Operator

ROWS = 65_536
RUNS = 7
RECORD = Types.ROW_NAMED(["user", "item", "amount", "time"], [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])


class Sink:
    """An output that drops what it gets."""

    def emit(self, batch: Batch) -> None:
        pass

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        pass

    def advance_watermark(self, watermark: int) -> None:
        pass


def batch() -> Batch:
    """Random records; a new batch each time, so that no rows are there yet."""
    rng = np.random.default_rng(1)
    users = [f"user-{number}" for number in rng.integers(0, 5000, ROWS).tolist()]
    numbers = [pa.array(rng.integers(0, limit, ROWS)) for limit in (1000, 100)]
    times = np.arange(ROWS)
    columns = pa.RecordBatch.from_arrays([pa.array(users), *numbers, pa.array(times)], names=RECORD.field_names)
    return Batch(RECORD, times, np.zeros(ROWS, np.int64), columns=columns)


def processing(operator: Operator) -> Callable[[Batch], None]:
    """What the operator does with a batch."""
    operator.open(OperatorContext("micro", "micro", 0, 1, 128, UNKNOWN_CALL_SITE), Sink())
    return lambda records: operator.process(0, records)


def keying(selector: Any) -> Callable[[Batch], Any]:
    """Finding the keys of a batch."""
    key = key_of(RECORD, selector, (), Types.STRING())
    return lambda records: keys_of(records, key)


def seconds(work: Callable[[Batch], Any]) -> float:
    """How long it takes."""
    records = batch()
    start = time.perf_counter()
    work(records)
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    doubled = bind(col("amount") * 2, RECORD)
    cases: dict[str, tuple[Callable[[Batch], Any], Callable[[Batch], Any]]] = {
        "filter: amount > 50": (
            processing(FilterOperator(lambda record: record.amount > 50, RECORD)),
            processing(ColumnFilterOperator(bind(col("amount") > 50, RECORD))),
        ),
        "map: amount * 2": (
            processing(MapOperator(lambda record: record.amount * 2, Types.LONG())),
            processing(SelectOperator((doubled,), doubled.type)),
        ),
        "key_by: user in capitals": (keying(lambda record: record.user.upper()), keying(col("user").upper())),
    }
    print(f"{ROWS:,} records{'function':>24}{'expression':>12}")
    for name, works in cases.items():
        times = [[seconds(work) for work in works] for _ in range(RUNS)]
        function, expression = (min(column) * 1e3 for column in zip(*times, strict=True))
        print(f"{name:<26}{function:>9.1f} ms{expression:>9.2f} ms")


if __name__ == "__main__":
    main()
