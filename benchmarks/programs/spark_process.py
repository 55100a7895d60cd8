"""A Python function with keyed state in ``transformWithState``, the variant that gets rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.programs.spark_stream import STORES, open_session, read_files, run_to_the_end
from benchmarks.truth import SAMPLE

if TYPE_CHECKING:
    from benchmarks.outcome import Assignment, Outcome


class CountAndSum(StatefulProcessor):
    """Counts and sums the values of each key; emits them at each record of one key in a thousand.

    State is read and written once for all records that a key has in a batch: the best that this interface allows.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("totals", "count long, sum double")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        number = key[0]
        count, total = self._state.get() or (0, 0.0)
        for row in rows:
            count += 1
            total += row[2]
            if number % SAMPLE == 0:
                yield Row(key=number, count=count, sum=total)
        self._state.update((count, total))

    def close(self) -> None:
        """Nothing is held open."""


def run(assignment: Assignment) -> Outcome:
    """Run the query over all input."""
    session = open_session(assignment.work, STORES["rocksdb"])
    grouped = read_files(session, assignment).groupBy("key")
    results = grouped.transformWithState(CountAndSum(), "key long, count long, sum double", "update", "None")
    checks = {
        "rows": sql.count(sql.lit(1)),
        "count": sql.sum("count"),
        "highest": sql.max("sum"),
    }
    return run_to_the_end(results, "update", checks, assignment.work)
