"""Windows: count and sum of a minute for each key, beside Spark's own window aggregation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import flink
from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work, best_rival
from benchmarks.queries import windows
from benchmarks.truth import window_totals

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

DUCKDB = Contestant("DuckDB, one batch", "duckdb_batch", {"work": "window"})
"""The limit."""

_CASES = ((10_000, False, 1.8), (1_000_000, False, 4.0), (10_000, True, 1.5), (1_000_000, True, 3.0))


STORES = {"hdfs": "Spark, HDFS", "rocksdb": "Spark, RocksDB"}
"""Spark with each of its state stores."""


def contestants(key_type: str = "long", windows: str = "tumbling", **options: bool) -> list[Contestant]:
    """headrace, and Spark with each of its state stores."""
    return [
        Contestant("headrace", "headrace_window", {"windows": windows, **options}),
        *(
            Contestant(name, "spark_window", {"store": store, "key_type": key_type, "windows": windows})
            for store, name in STORES.items()
        ),
    ]


def truth(source: Path, found: Mapping[str, float]) -> Mapping[str, float]:
    """Spark keeps the windows that are open at the end of input, headrace closes them: each is judged by its last."""
    return window_totals(source, found.get("last_end", 0))


def flink_contestants(lab: Lab, data: RandomKeys) -> list[Contestant]:
    """Flink SQL, where it is installed; else nobody, which is said."""
    try:
        return [flink.sql_contestant(data, windows("STRING" if data.strings else "BIGINT"))]
    except flink.NoFlinkError as error:
        lab.say(f"Flink SQL does not take part: {error}")
        return []


class WindowBenchmark:
    """How many times as fast as the better one of Spark's state stores."""

    name = "window"
    title = "One-minute tumbling windows: count and sum for each key"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for keys, strings, limit in _CASES:
            kind = "string" if strings else "long"
            data = RandomKeys(scale.files, scale.per_epoch, keys, strings)
            work = Work(data, scale.per_epoch, truth)
            here = [*contestants(kind), DUCKDB, *flink_contestants(lab, data)]
            found = lab.race(work, here, scale.rounds)
            yield Finding(
                self.name,
                f"{keys:,} {'string' if strings else 'int'} keys",
                best_rival(found, here).seconds / found["headrace"].seconds,
                "x",
                Target(limit, at_least=True),
                found,
                "times as fast as the better one of Spark's",
            )
