"""SQL that headrace, Flink and DuckDB run over the same files: tables, queries, and what their results add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.outcome import Assignment

RUNS = 2
"""How often a program runs a statement; its first run is not counted."""

MINI_BATCH: Mapping[str, str] = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "5 s",
    "table.exec.mini-batch.size": "1000000",
}
"""For totals, which would be updated with every row."""

BLACKHOLE = "'connector' = 'blackhole'"


@dataclass(frozen=True, slots=True)
class SqlWork:
    """A query whose rows are written to a table, and how they are checked.

    In statements ``{input}`` is the folder of the files, ``{work}`` one for output, and ``{lateness}`` an interval by
    which a program may read records out of order.

    Attributes:
        tables: statements that create the sources.
        query: the query.
        sink: the columns of the table that takes its rows.
        totals: aggregates over the rows of the query, by name; ``rows`` is one of them.
        sink_options: where its rows go.
        partitions: the partition columns of that table.
        views: statements that create views.
        checked: what the totals are of, instead of the query, where its rows depend on the clock.
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
        """The query of the totals."""
        return f"SELECT {', '.join(self.totals.values())} FROM ({self.checked or self.query})"

    @property
    def insert(self) -> str:
        """The statement that is timed."""
        return f"INSERT INTO results {self.query}"

    def statements(self, assignment: Assignment) -> list[str]:
        """Those that create the tables."""
        partitions = f" PARTITIONED BY {self.partitions}" if self.partitions else ""
        sink = f"CREATE TABLE results ({self.sink}){partitions} WITH ({self.sink_options})"
        values = {
            "{input}": assignment.input.as_uri(),
            "{work}": (assignment.work / "out").as_uri(),
            "{lateness}": _interval(assignment.options["lateness_millis"]),
        }
        return [_filled(statement, values) for statement in (*self.tables, *self.views, sink)]

    def to_options(self) -> dict[str, Any]:
        """For a program's process."""
        return {"sql": asdict(self)}

    @staticmethod
    def of(assignment: Assignment) -> SqlWork:
        """In the program's process."""
        return SqlWork(**assignment.options["sql"])

    def named(self, row: Sequence[Any]) -> dict[str, float]:
        """The totals of a row."""
        return {name: float(value) for name, value in zip(self.totals, row, strict=True)}


def parquet() -> str:
    """The options of a table of the input."""
    return "WITH ('connector' = 'filesystem', 'path' = '{input}', 'format' = 'parquet')"


def _interval(millis: int) -> str:
    """At least so long, in whole seconds or minutes of two digits."""
    seconds = -(-millis // 1000)
    return f"INTERVAL '{seconds}' SECOND" if seconds < 100 else f"INTERVAL '{-(-seconds // 60)}' MINUTE"


def _filled(statement: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        statement = statement.replace(name, value)
    return statement
