"""Asynchronous requests: how many a second pass a service that takes a while, and what memory a slower one takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import NoFiles
from benchmarks.echo_server import echo_server
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab
from benchmarks.memory import WORKER
from benchmarks.suite.backlog import Backlog, Runs, race, rate

if TYPE_CHECKING:
    from benchmarks.findings import Measured
    from benchmarks.suite.base import Scale

_MILLIS, _CAPACITY = 20, 1_000
_SLOW_MILLIS, _SLOW_CAPACITY, _SLOW_SHARE = 100, 100, 20
"""Of a service that lets fewer records through than the source has; it gets one record in so many."""

_MOST_RECORDS = 600_000
_RATE_LIMIT, _MEMORY_LIMIT = 20_000, 1.1
_ORDERS = {"unordered": False, "ordered": True}


class AsyncBenchmark:
    """One subtask and a server in a process of its own."""

    name = "async"
    title = f"Requests: a service that answers after {_MILLIS} ms, {_CAPACITY:,} requests in flight"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = min(scale.events, _MOST_RECORDS)
        with echo_server(_MILLIS / 1_000) as port:
            for case, is_ordered in _ORDERS.items():
                fast = _measured(lab, scale.rounds, records, port=port, capacity=_CAPACITY, ordered=is_ordered)
                target = Target(_RATE_LIMIT, at_least=True)
                yield Finding(self.name, case, rate(fast), "records/s", target, {"headrace": fast})
        with echo_server(_SLOW_MILLIS / 1_000) as port:
            slow = _measured(lab, 1, records // _SLOW_SHARE, port=port, capacity=_SLOW_CAPACITY, ordered=False)
        yield Finding(
            self.name,
            f"answers after {_SLOW_MILLIS} ms, {_SLOW_CAPACITY} in flight",
            slow.memory_mib[WORKER] / fast.memory_mib[WORKER],
            "x",
            Target(_MEMORY_LIMIT, at_least=False),
            {"headrace": slow},
            "times the memory of a worker with the faster service",
        )


def _measured(lab: Lab, rounds: int, records: int, **options: int) -> Measured:
    expected = {"rows": records, "sum": records * (records + 1) // 2}

    def truth(_: Path, __: Mapping[str, float]) -> Mapping[str, float]:
        return expected

    work = Backlog(NoFiles(), records_per_epoch=None, truth=truth)
    told = {**options, "records": records, "default_sizes": True}
    who = Contestant("headrace", "headrace_async", told)
    return race(lab, [Runs(work, who)], rounds)[who.name]
