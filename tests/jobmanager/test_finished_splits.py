"""A source of ever new splits: those that have finished leave the manifest and the memory, and no record is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.manifest import Manifest
from headrace.common.typeinfo import TypeInformation, Types
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    ReadBudget,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)
from headrace.testing import Checkpoint, JobHarness
from headrace.time.watermark_strategy import WatermarkStrategy

RECORDS = 3


class Days(Source):
    """A split for each day, some of which can be read at a time.

    Args:
        days: how many there are.
        open_days: how many are listed at a time.
        share: how many records of a day an epoch reads.
        lists_finished: whether days stay listed when they are over.
    """

    def __init__(self, days: int, open_days: int, share: int, *, lists_finished: bool = False) -> None:
        self.days, self.open_days, self.share, self.lists_finished = days, open_days, share, lists_finished

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> TypeInformation:
        return Types.LONG()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return DayEnumerator(self, context.state or [])

    def create_reader(self) -> SourceReader:
        return DayReader()


class DayEnumerator(SplitEnumerator):
    """Knows which days are open; the next ones follow when they are over."""

    def __init__(self, source: Days, state: list[int]) -> None:
        self._source = source
        self._open = state or list(range(min(source.open_days, source.days)))
        self._finished: list[int] = []

    def discover(self, now: int) -> Sequence[str]:
        listed = sorted({*self._finished, *self._open}) if self._source.lists_finished else self._open
        return [f"day {day}" for day in listed]

    def initial_position(self, split_id: str) -> int:
        return 0

    def plan(self, split_id: str, position: int, budget: ReadBudget, now: int) -> SplitRead | None:
        end = min(position + self._source.share, RECORDS)
        first = int(split_id.removeprefix("day ")) * RECORDS
        return SplitRead(split_id, position, end, ([first + position, first + end],), records=end - position)

    def is_finished(self, split_id: str, position: int) -> bool:
        return position >= RECORDS

    def is_complete(self) -> bool:
        return self._open[-1] == self._source.days - 1

    def snapshot(self) -> list[int]:
        return list(self._open)

    def checkpoint_completed(self, positions: dict[str, int]) -> None:
        over = [day for day in self._open if positions.get(f"day {day}") == RECORDS]
        last = self._open[-1]
        following = range(last + 1, min(last + 1 + len(over), self._source.days))
        self._finished += over
        # The last day stays, as a mark of how far it is.
        self._open = [day for day in self._open if day not in over or day == self._source.days - 1] + [*following]


class DayReader(SourceReader):
    def read(self, piece: Any) -> Iterator[SourceRecords]:
        yield SourceRecords(rows=list(range(*piece)))


class Run:
    """A job that reads days, restarted now and then."""

    def __init__(self, source: Days, restart_every: int | None = None) -> None:
        self.source = source
        self.restart_every = restart_every
        self.rows: list[int] = []
        self.manifests: list[Manifest] = []
        self.memory: list[int] = []

    def build(self, job: JobHarness) -> None:
        stream = job.env.from_source(self.source, WatermarkStrategy.no_watermarks(), "days").uid("days")
        job.add_sink("out", stream.key_by(lambda day: day % 2))

    def to_end(self) -> list[int]:
        checkpoint: Checkpoint | None = None
        while True:
            with JobHarness(self.build, restore=checkpoint) as job:
                for number in range(1, 100_000):
                    job.run_epoch()
                    self._note(job)
                    if self.manifests[-1].finished:
                        job.finish()
                        self.rows += job.take("out")
                        return self.rows
                    if number == self.restart_every:
                        break
                self.rows += job.take("out")
                checkpoint = Checkpoint(Path(job._folder))

    def _note(self, job: JobHarness) -> None:
        manifest = job._manager.manifest
        assert manifest is not None
        self.manifests.append(Manifest.from_bytes(manifest.to_bytes(), "it"))
        coordinator = job._manager.source("days")
        self.memory.append(len(coordinator._splits) + len(coordinator._finished))

    def sizes(self) -> list[int]:
        """The bytes that each manifest needs for the source."""
        return [
            len(json.dumps(m.to_bytes().decode().split('"sources"')[1].split('"stages"')[0])) for m in self.manifests
        ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("restart_every", "open_days", "share"),
    [(None, 40, RECORDS), (None, 1, 1), (1, 7, 2), (5, 1, 1), (5, 40, RECORDS)],
)
def test_any_cut_and_any_restart_give_every_record_once(open_days: int, share: int, restart_every: int | None) -> None:
    run = Run(Days(24, open_days, share), restart_every)
    assert Counter(run.to_end()) == Counter(range(24 * RECORDS))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("restart_every", [None, 20])
def test_a_thousand_splits_leave_no_trace(restart_every: int | None) -> None:
    run = Run(Days(1000, 50, 2), restart_every)
    assert Counter(run.to_end()) == Counter(range(1000 * RECORDS))
    assert max(run.memory) <= 100
    sizes = run.sizes()
    assert max(sizes) <= 2 * max(sizes[:4])


def test_what_stays_listed_is_kept_as_its_id() -> None:
    run = Run(Days(200, 10, RECORDS, lists_finished=True), None)
    assert Counter(run.to_end()) == Counter(range(200 * RECORDS))
    last = run.manifests[-1].sources["days"]
    assert len(last.splits) <= 20
    assert set(last.finished) | {split.split_id for split in last.splits} == {f"day {day}" for day in range(200)}


def test_channels_are_those_of_one_living_split_each() -> None:
    run = Run(Days(60, 7, 2), 3)
    run.to_end()
    for manifest in run.manifests:
        channels = [split.channel for split in manifest.sources["days"].splits]
        assert len(set(channels)) == len(channels)
