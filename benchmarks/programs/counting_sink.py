"""A sink that drops everything but totals, so that headrace pays for its results what Spark pays for its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from headrace.connectors.sink import Committer, Sink, SinkWriter

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.connectors.sink import CommitterContext, WriterContext

Checks = Sequence[tuple[str, str, str]]
"""What to sum up: name of the total, field, and ``sum`` or ``max``."""


class CountingSink(Sink):
    """Counts the records, and sums some of their fields up; ``totals`` has it all when the job is over.

    Args:
        checks: what to sum up besides ``rows``, the number of records.
    """

    def __init__(self, checks: Checks = ()) -> None:
        self._checks = tuple(checks)
        self.totals: dict[str, float] = {}

    @property
    def is_durable(self) -> bool:
        return False

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer(self._checks)

    def create_committer(self, context: CommitterContext) -> Committer:
        return _Committer(self)

    def add(self, totals: dict[str, float]) -> None:
        """Take the totals of a writer over."""
        kinds = {name: kind for name, _, kind in self._checks}
        for name, value in totals.items():
            before = self.totals.get(name, 0)
            self.totals[name] = max(before, value) if kinds.get(name) == "max" else before + value


class _Writer(SinkWriter):
    def __init__(self, checks: Checks) -> None:
        self._sink = CountingSink(checks)
        self._checks = checks

    def write(self, batch: Batch) -> None:
        found: dict[str, float] = {"rows": len(batch)}
        if len(batch):
            for name, field, kind in self._checks:
                column = batch.columns.column(field)
                found[name] = (pc.max(column) if kind == "max" else pc.sum(column)).as_py() or 0  # of nulls it is null
        self._sink.add(found)

    def prepare_commit(self) -> Sequence[Any]:
        totals, self._sink = self._sink.totals, CountingSink(self._checks)
        return [totals]


class _Committer(Committer):
    def __init__(self, sink: CountingSink) -> None:
        self._sink = sink
        self._last_epoch = -1

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        if epoch > self._last_epoch:
            for totals in committables:
                self._sink.add(totals)
            self._last_epoch = epoch
