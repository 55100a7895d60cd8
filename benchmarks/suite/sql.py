"""SQL: windows, groups, ranks, functions, planning and Nexmark, compared with Flink SQL over the same files."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import flink
from benchmarks.data import OUT_OF_ORDER_MILLIS, RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.launch import ProgramFailedError
from benchmarks.nexmark import FLINKS, QUERIES, Nexmark
from benchmarks.nexmark_truth import nexmark_totals
from benchmarks.queries import (
    CHANGING_JOIN,
    FUNCTIONS,
    GROUPS,
    JOINS,
    LOOKUP_CACHE,
    LOOKUP_MILLIS,
    PLANNED,
    RANKS,
    lookup_join,
    windows,
)
from benchmarks.truth import WrongResultError, window_totals

if TYPE_CHECKING:
    from benchmarks.findings import Measured
    from benchmarks.sql import SqlWork
    from benchmarks.suite.base import Scale

HEADRACE, STREAM, DUCKDB = "headrace", "DataStream API", "DuckDB"

_FEW, _MANY = 10_000, 1_000_000
_PLANS = 80
_MOST_LOOKUPS = 200_000
_DUCKDB_LIMIT = 0.4
_OWN = {"lateness_millis": OUT_OF_ORDER_MILLIS, "default_sizes": True}
"""Options of headrace's program."""


@dataclass(slots=True)
class Agreement:
    """Checks that all contestants compute the same totals.

    Attributes:
        totals: the totals of the first contestant.
    """

    totals: dict[str, float] = field(default_factory=dict)

    def __call__(self, source: Path, found: Mapping[str, float]) -> Mapping[str, float]:
        """The expected totals."""
        self.totals = self.totals or dict(found)
        return self.totals


@dataclass(frozen=True, slots=True)
class Speedup:
    """A target: how many times as fast as a contestant headrace has to be."""

    name: str
    limit: float


def contestants(lab: Lab, data: RandomKeys | Nexmark, work: SqlWork, **options: Any) -> list[Contestant]:
    """Headrace, and Flink if its jars are available; a message says why if they are not."""
    here = Contestant(HEADRACE, "headrace_sql", work.to_options() | _OWN | options)
    return [here, *_if_there(lab, flink.SQL, lambda: flink.sql_contestant(data, work, **options))]


def _beside_connector(lab: Lab, data: RandomKeys | Nexmark, work: SqlWork, theirs: SqlWork) -> list[Contestant]:
    """Headrace, and Flink with a query whose tables are of a connector in Java."""
    here = Contestant(HEADRACE, "headrace_sql", work.to_options() | _OWN)
    return [here, *_if_there(lab, flink.SQL, lambda: flink.connector_contestant(data, theirs, "SlowTables"))]


def findings(name: str, case: str, found: Mapping[str, Measured], targets: Sequence[Speedup]) -> Iterator[Finding]:
    """A finding for each target whose contestant took part."""
    for each in targets:
        if each.name in found:
            ratio = found[each.name].seconds / found[HEADRACE].seconds
            target = Target(each.limit, at_least=True)
            yield Finding(
                name, f"{case}, beside {each.name}", ratio, "x", target, found, f"times as fast as {each.name}"
            )


class SqlWindowBenchmark:
    """A window TVF, compared with the same windows in the DataStream API and with Flink SQL."""

    name = "sql-window"
    title = "SQL: count and sum of one-minute tumbling windows"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for keys, limit in ((_FEW, 3.0), (_MANY, 8.0)):
            data = RandomKeys(scale.files, scale.per_epoch, keys)
            stream = Contestant(STREAM, "headrace_window", {"default_sizes": True, "whole": True})
            here = [*contestants(lab, data, windows()), stream]
            found = lab.race(Work(data, data.records, _all_windows), here, scale.rounds)
            targets = [Speedup(STREAM, 0.95), Speedup(flink.SQL, limit)]
            yield from findings(self.name, f"{keys:,} keys", found, targets)


def _all_windows(source: Path, _: Mapping[str, float]) -> Mapping[str, float]:
    every = window_totals(source, 1 << 50)
    return {name: every[name] for name in ("rows", "count", "sum")}


class SqlGroupBenchmark:
    """``GROUP BY`` that emits an update for each row."""

    name = "sql-group"
    title = "SQL: GROUP BY with a change for each row"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for keys in (_FEW, _MANY):
            yield from _beside_flink(self.name, f"{keys:,} keys", lab, scale, GROUPS, keys, 2.0)


class SqlRankBenchmark:
    """Top-10 of each group, deduplication to the last row, and sums ``OVER`` the last hundred rows."""

    name = "sql-rank"
    title = "SQL: Top-N, deduplication and OVER"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for case, work in RANKS.items():
            yield from _beside_flink(self.name, case, lab, scale, work, _MANY, 2.0)


class SqlJoinBenchmark:
    """Regular, interval, window and temporal joins of the same records."""

    name = "sql-join"
    title = "SQL: joins of two streams"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for case, work in JOINS.items():
            yield from _beside_flink(self.name, case, lab, scale, work, _MANY, 1.5 if case == "regular join" else 2.0)
        data = RandomKeys(scale.files, scale.per_epoch, _MANY)
        here = contestants(lab, data, CHANGING_JOIN)
        if len(here) > 1:
            here += _if_there(lab, flink.SQL_ROCKSDB, lambda: flink.rocksdb_contestant(data, CHANGING_JOIN))
        found = lab.race(Work(data, data.records, Agreement()), here, scale.rounds)
        targets = [Speedup(flink.SQL, 1.5), Speedup(flink.SQL_ROCKSDB, 4.0)]
        yield from findings(self.name, "regular join of two changing streams", found, targets)


class SqlLookupBenchmark:
    """A lookup join with a table that answers after a while, with default settings and a cache for half of its keys."""

    name = "sql-lookup"
    title = f"SQL: a lookup join with a table that answers after {LOOKUP_MILLIS} ms, a cache of {LOOKUP_CACHE:,} rows"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = min(scale.events, _MOST_LOOKUPS)
        data = RandomKeys(scale.files, records // scale.files, 2 * LOOKUP_CACHE)
        work = lookup_join(
            "'connector' = 'function', 'function' = 'benchmarks.weights.weight', 'lookup.cache' = 'PARTIAL', "
            f"'lookup.partial-cache.max-rows' = '{LOOKUP_CACHE}'"
        )
        theirs = lookup_join(f"'connector' = 'slow', 'millis' = '{LOOKUP_MILLIS}', 'cache' = '{LOOKUP_CACHE}'")
        here = _beside_connector(lab, data, work, theirs)
        found = lab.race(Work(data, data.records, Agreement()), here, scale.rounds)
        yield from findings(self.name, f"{records:,} records", found, [Speedup(flink.SQL, 1.0)])


def _if_there(lab: Lab, name: str, made: Callable[[], Contestant]) -> list[Contestant]:
    """A contestant, or none and a message that says why."""
    try:
        return [made()]
    except flink.NoFlinkError as error:
        lab.say(f"{name} does not take part: {error}")
        return []


def _beside_flink(
    name: str, case: str, lab: Lab, scale: Scale, work: SqlWork, keys: int, limit: float
) -> Iterator[Finding]:
    data = RandomKeys(scale.files, scale.per_epoch, keys)
    found = lab.race(Work(data, data.records, Agreement()), contestants(lab, data, work), scale.rounds)
    yield from findings(name, case, found, [Speedup(flink.SQL, limit)])


class SqlFunctionsBenchmark:
    """A filter and twelve expressions, over twice as many records as the other benchmarks."""

    name = "sql-functions"
    title = "SQL: a filter and twelve expressions of texts, numbers and times"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        data = RandomKeys(scale.files, 2 * scale.per_epoch, _FEW, strings=True)
        here = [*contestants(lab, data, FUNCTIONS), Contestant(DUCKDB, "duckdb_batch", {"work": "functions"})]
        found = lab.race(Work(data, data.records, Agreement()), here, scale.rounds)
        yield from findings(
            self.name, f"{data.records:,} records", found, [Speedup(flink.SQL, 3.0), Speedup(DUCKDB, _DUCKDB_LIMIT)]
        )


class SqlPlannerBenchmark:
    """Parsing, binding and planning a statement, in a warmed-up process."""

    name = "sql-planner"
    title = "SQL: planning a statement of sixty lines"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        data, plans = RandomKeys(1, 10, 10), scale.choose(_PLANS, 10)
        work = Work(data, 1, Agreement(), warm_up=plans * 3 // 4)
        found = lab.race(work, contestants(lab, data, PLANNED, plans=plans), scale.rounds)
        yield from findings(self.name, "parse, bind and plan", found, [Speedup(flink.SQL, 10.0)])


class NexmarkBenchmark:
    """The queries of Nexmark that Flink SQL runs."""

    name = "nexmark"
    title = "SQL: Nexmark"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        data = Nexmark(scale.files, scale.per_epoch * 2 // 5)
        ratios: list[float] = []
        failures: list[str] = []
        for query, work in QUERIES.items():
            try:
                found = lab.race(
                    Work(data, data.records, lambda source, _, work=work: nexmark_totals(work, source)),
                    _beside_connector(lab, data, work, FLINKS[query])
                    if query in FLINKS
                    else contestants(lab, data, work),
                    1,
                )
            except (ProgramFailedError, WrongResultError) as error:
                failures.append(f"{query}: {error}")
                lab.say(f"{query} failed; the other queries go on")
                continue
            for finding in findings(self.name, query, found, [Speedup(flink.SQL, 1.0)]):
                ratios.append(finding.value)
                yield finding
        if failures:
            raise ProgramFailedError("\n".join(failures))
        if ratios:
            mean = statistics.geometric_mean(ratios)
            note = f"times as fast as {flink.SQL}"
            yield Finding(self.name, "geometric mean", mean, "x", Target(2.0, at_least=True), {}, note)
