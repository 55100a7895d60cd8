"""The median of all records of a window, found by a Python function, in Spark.

Option: ``interface``, which is ``applyInPandasWithState`` or ``transformWithState``. With both of them the records of a
window are in state until a timer tells that the watermark has passed its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.sql import Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.programs.spark_stream import STORES, open_session, read_files, run_to_the_end
from benchmarks.truth import WINDOW_MILLIS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.group import GroupedData

    from benchmarks.outcome import Assignment, Outcome

_RESULT = "key long, end long, count long, median double"


def upper_median(values: Iterable[float]) -> tuple[int, float]:
    """How many values there are, and the upper median."""
    ordered = sorted(values)
    return len(ordered), ordered[len(ordered) // 2]


class Medians(StatefulProcessor):
    """Keeps the values in a list, which is never read before the window ends."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._values = handle.getListState("values", "value double")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        self._values.appendList([(row[2],) for row in rows])
        self._handle.registerTimer(key[1])
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        count, median = upper_median(value for (value,) in self._values.get())
        self._values.clear()
        yield Row(key=key[0], end=key[1], count=count, median=median)

    def close(self) -> None:
        """Nothing is held open."""


def medians(key: tuple[int, int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Keeps the values as the bytes of an array, since PySpark cannot read the schema of a state that has lists."""
    if state.hasTimedOut:
        count, median = upper_median(np.frombuffer(state.get[0]).tolist())
        state.remove()
        yield pd.DataFrame({"key": [key[0]], "end": [key[1]], "count": [count], "median": [median]})
        return
    before = bytes(state.get[0]) if state.exists else b""
    state.update((before + b"".join(frame["value"].to_numpy().tobytes() for frame in frames),))
    state.setTimeoutTimestamp(int(key[1]))  # a number of numpy's is refused


def _apply_in_pandas(groups: GroupedData) -> DataFrame:
    timeout = GroupStateTimeout.EventTimeTimeout
    return groups.applyInPandasWithState(medians, _RESULT, "values binary", "append", timeout)


def _transform(groups: GroupedData) -> DataFrame:
    return groups.transformWithState(Medians(), _RESULT, "append", "EventTime")


_INTERFACES = {
    "applyInPandasWithState": (_apply_in_pandas, "hdfs"),
    "transformWithState": (_transform, "rocksdb"),  # which it asks for
}


def run(assignment: Assignment) -> Outcome:
    """Run the query over all input."""
    interface, store = _INTERFACES[assignment.options["interface"]]
    session = open_session(assignment.work, STORES[store])
    end = (sql.floor(sql.unix_millis("ts") / WINDOW_MILLIS) + 1) * WINDOW_MILLIS
    events = read_files(session, assignment).withWatermark("ts", "5 seconds").withColumn("end", end.cast("long"))
    checks = {
        "rows": sql.count(sql.lit(1)),
        "count": sql.sum("count"),
        "sum": sql.sum("median"),
        "last_end": sql.max("end"),
    }
    return run_to_the_end(interface(events.groupBy("key", "end")), "append", checks, assignment.work)
