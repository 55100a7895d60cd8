"""The rows of a static DataFrame, brought together by what Python says they belong to; all of it in tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as sql

from headrace.runtime.spark.faults import SPARK_ERRORS, failure
from headrace.runtime.task.background import attempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Divide = Callable[[pa.RecordBatch], Iterable[tuple[int, pa.RecordBatch]]]
"""Of some rows: which partitions they belong to, and what they become there."""

Gather = Callable[[int, Iterator[pa.RecordBatch]], Any]
"""Does something with all rows of a partition; the result travels as a pickle."""

_DIVIDED: Final = "partition int, source int, sequence long, payload binary"
_GATHERED: Final = "outcome binary"
_FAILED: Final = -1
"""In place of a sequence: the payload is what went wrong."""


def grouped(dataframe: DataFrame, partitions: int, divide: Divide, gather: Gather) -> list[Any]:
    """What is made of the rows of each partition, for those that have some.

    Args:
        dataframe: a static DataFrame. The rows of a partition come in its order.
        partitions: how many there are.
        divide: is called for a batch at a time.
        gather: is called once for a partition, or again when its task is.

    Raises:
        Exception: what one of the functions has raised.
        InfrastructureError: when tasks themselves have failed.
    """
    query = (
        dataframe.mapInArrow(_Divided(divide), _DIVIDED)
        .repartitionById(partitions, sql.col("partition"))
        .sortWithinPartitions("partition", "source", "sequence")
        .mapInArrow(_Gathered(gather), _GATHERED)
    )
    try:
        outcomes = query.toArrow().column("outcome").to_pylist()
    except SPARK_ERRORS as error:
        raise failure("writing the rows of a DataFrame", error) from error
    return [pickle.loads(outcome).result() for outcome in outcomes]


@dataclass(frozen=True, slots=True)
class _Divided:
    """The first stage: a row for each part of a batch."""

    divide: Divide

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "Spark calls it in a task"
        source, sequence = context.partitionId(), 0
        for batch in batches:
            outcome = attempt(self._parts, batch)
            if outcome.error is not None:
                yield _row(0, source, _FAILED, outcome.to_bytes())
                return
            for partition, payload in outcome.value:
                yield _row(partition, source, sequence, payload)
                sequence += 1

    def _parts(self, batch: pa.RecordBatch) -> list[tuple[int, bytes]]:
        return [(partition, _packed(rows)) for partition, rows in self.divide(batch) if rows.num_rows]


@dataclass(frozen=True, slots=True)
class _Gathered:
    """The second stage: a row for each partition."""

    gather: Gather

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = ("partition", "sequence", "payload")
        rows = (row for batch in batches for row in zip(*(batch.column(name) for name in columns), strict=True))
        for partition, parts in groupby(rows, key=lambda row: row[0].as_py()):
            outcome = attempt(self._gathered, (partition, parts))
            yield pa.RecordBatch.from_pydict({"outcome": pa.array([outcome.to_bytes()], pa.binary())})

    def _gathered(self, group: tuple[int, Iterator[Any]]) -> Any:
        partition, parts = group
        return self.gather(partition, map(_unpacked, parts))


def _row(partition: int, source: int, sequence: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([partition], pa.int32()),
            "source": pa.array([source], pa.int32()),
            "sequence": pa.array([sequence], pa.int64()),
            "payload": pa.array([payload], pa.binary()),
        }
    )


def _packed(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _unpacked(part: Any) -> pa.RecordBatch:
    """The rows of a part.

    Raises:
        Exception: what has gone wrong where they come from.
    """
    _, sequence, payload = part
    if sequence.as_py() == _FAILED:
        pickle.loads(payload.as_buffer()).result()
    return pa.ipc.open_stream(payload.as_buffer()).read_next_batch()
