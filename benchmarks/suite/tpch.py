"""TPC-H in batch mode, compared with DuckDB and Spark SQL over the same Parquet files."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.suite.sql import DUCKDB, HEADRACE, Agreement
from benchmarks.tpch_data import TpcH

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

SPARK = "Spark SQL"
_SCALE, _QUICK_SCALE = 1.0, 0.001


class TpcHBenchmark:
    """All 22 queries, each the fastest of some runs in a process."""

    name = "tpch"
    title = "SQL: TPC-H in batch mode"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        factor = _QUICK_SCALE if scale.quick else _SCALE
        programs = {DUCKDB: "duckdb_tpch", SPARK: "spark_tpch", HEADRACE: "headrace_tpch"}
        here = [
            Contestant(name, program, {"scale": factor, "default_sizes": True}) for name, program in programs.items()
        ]
        found = lab.race(Work(TpcH(factor), 1, Agreement(), warm_up=0), here, 1)
        times = {name: each.details for name, each in found.items()}
        for name, limit in ((DUCKDB, 0.25), (SPARK, 1.0)):
            ratios = {query: times[name][query] / seconds for query, seconds in times[HEADRACE].items()}
            told = ", ".join(f"{query} {ratio:.2f}" for query, ratio in ratios.items())
            mean, target = statistics.geometric_mean(ratios.values()), Target(limit, at_least=True)
            case = f"geometric mean at scale {factor:g}, beside {name}"
            yield Finding(self.name, case, mean, "x", target, found, f"times as fast as {name}: {told}")
