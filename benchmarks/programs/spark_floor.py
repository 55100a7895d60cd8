"""What Spark needs for two Python stages with a shuffle between them, whatever they do: a row from each task is moved.

Options: ``parallelism``, and ``epochs``, how often it is done.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.programs.spark_stream import open_session

if TYPE_CHECKING:
    import pyarrow as pa


def pass_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Everything as it is."""
    yield from batches


def run(assignment: Assignment) -> Outcome:
    """Run the query again and again."""
    tasks = assignment.options["parallelism"]
    session = open_session(assignment.work, {"spark.sql.adaptive.enabled": "false"})
    first = session.range(0, tasks, 1, tasks).mapInArrow(pass_on, "id long")
    query = first.repartition(tasks, "id").mapInArrow(pass_on, "id long")
    epochs, rows = [], 0
    for _ in range(assignment.options["epochs"]):
        started = time.monotonic()
        rows += query.select("*").toArrow().num_rows  # a new query of a plan that was analysed once
        epochs.append(Epoch(assignment.records_per_epoch, time.monotonic() - started))
    session.stop()
    return Outcome(tuple(epochs), {"rows": rows, "sent": tasks * len(epochs)})
