"""SQL that headrace, Flink and DuckDB run over the same files: tables, queries, and totals of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.outcome import Assignment

RUNS = 2
"""The number of runs of a statement in a process; the first is a warm-up run, which is not measured."""

MINI_BATCH: Mapping[str, str] = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "5 s",
    "table.exec.mini-batch.size": "1000000",
}
"""Settings for queries of totals, which would otherwise emit an update for every row."""

BLACKHOLE = "'connector' = 'blackhole'"


@dataclass(frozen=True, slots=True)
class SqlWork:
    """A query whose rows are written to a table, and the totals by which they are checked.

    In statements ``{input}`` is the folder of the files, ``{work}`` one for output, and ``{lateness}`` an interval by
    which a program may read records out of order.

    Attributes:
        tables: statements that create the sources.
        query: the query.
        sink: the columns of the sink table.
        totals: aggregates over the rows of the query, by name; ``rows`` is one of them.
        sink_options: the options of the sink table.
        partitions: the partition columns of the sink table.
        views: statements that create views.
        checked: a query to compute the totals of instead, for a query whose rows depend on the clock.
    """

    tables: Sequence[str]
    query: str
    sink: str
    totals: Mapping[str, str]
    sink_options: str = BLACKHOLE
    partitions: str = ""
    views: Sequence[str] = ()
    checked: str = ""

    @property
    def totals_query(self) -> str:
        """The query that computes the totals."""
        return f"SELECT {', '.join(self.totals.values())} FROM ({self.checked or self.query})"

    @property
    def insert(self) -> str:
        """The ``INSERT`` that is timed."""
        return f"INSERT INTO results {self.query}"

    def statements(self, assignment: Assignment) -> list[str]:
        """The statements that create the sources, the views and the sink."""
        partitions = f" PARTITIONED BY {self.partitions}" if self.partitions else ""
        sink = f"CREATE TABLE results ({self.sink}){partitions} WITH ({self.sink_options})"
        values = {
            "{input}": assignment.input.as_uri(),
            "{work}": (assignment.work / "out").as_uri(),
            "{lateness}": _interval(assignment.options["lateness_millis"]),
        }
        return [_filled(statement, values) for statement in (*self.tables, *self.views, sink)]

    def to_options(self) -> dict[str, Any]:
        """The options that hand the work to a program."""
        return {"sql": asdict(self)}

    @staticmethod
    def of(assignment: Assignment) -> SqlWork:
        """The work among the options of a program."""
        return SqlWork(**assignment.options["sql"])

    def named(self, row: Sequence[Any]) -> dict[str, float]:
        """The totals by name, given the row of :attr:`totals_query`."""
        return {name: float(value) for name, value in zip(self.totals, row, strict=True)}


def parquet() -> str:
    """The options of a source table over the input's Parquet files."""
    return "WITH ('connector' = 'filesystem', 'path' = '{input}', 'format' = 'parquet')"


def _interval(millis: int) -> str:
    """An interval literal of at least this duration, in whole seconds or minutes of two digits."""
    seconds = -(-millis // 1000)
    return f"INTERVAL '{seconds}' SECOND" if seconds < 100 else f"INTERVAL '{-(-seconds // 60)}' MINUTE"


def _filled(statement: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        statement = statement.replace(name, value)
    return statement
