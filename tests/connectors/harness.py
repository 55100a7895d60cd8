"""Drives sources and sinks as the job manager does."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import NO_TIMESTAMP
from headrace.connectors.sink import Committer, CommitterContext, Sink, WriterContext, WriterEpoch
from headrace.connectors.source import EnumeratorContext, ReadBudget, Source, SourceRecords
from headrace.storage.folder import posix_folder

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation

PLENTY = ReadBudget(records=10**9, bytes=10**12)


def through_json(value: Any) -> Any:
    """What a manifest makes of a position, a piece or a committable."""
    return json.loads(json.dumps(value))


@dataclass
class SourceRun:
    """A job that only reads."""

    source: Source
    directory: Path
    now: int = 0
    rows: list[Any] = field(default_factory=list)
    rejected: list[tuple[str, str, str]] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    snapshots: list[tuple[Any, Any, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = pickle.loads(pickle.dumps(self.source))
        self.positions: dict[str, Any] = {}
        self._start(None)

    def _start(self, state: Any) -> None:
        self.enumerator = self.source.create_enumerator(EnumeratorContext(2, posix_folder(self.directory), state))

    def epoch(self, budget: ReadBudget = PLENTY) -> int:
        """Read an epoch of every split; gives how many splits had something."""
        busy = 0
        for split in self.enumerator.discover(self.now):
            position = self.positions.get(split, self.enumerator.initial_position(split))
            share = self.enumerator.plan(split, position, budget, self.now)
            if share is None:
                continue
            busy += 1
            assert share.start == position
            assert len(share.pieces) <= max(budget.pieces, 1)
            for piece in through_json(share.pieces):
                self._take(self.source.create_reader().read(piece))
            self.positions[split] = through_json(share.end)
        self._checkpoint()
        return busy

    def _take(self, records: Iterator[SourceRecords]) -> None:
        layout = layout_of(self.source.produced_type)
        for part in records:
            if part.columns is not None:
                assert part.columns.schema == layout.schema
            self.rows += part.rows if part.rows is not None else layout.columns_to_rows(part.columns)
            self.rejected += part.rejected
            self.counters.update(part.counters)

    def _checkpoint(self) -> None:
        manifest = json.dumps([self.enumerator.snapshot(), self.positions])
        self.snapshots.append((manifest, list(self.rows), len(self.rejected)))
        self.enumerator.checkpoint_completed(dict(self.positions))

    def restart(self, snapshot: int = -1) -> None:
        """Go back to an epoch, as after a failure."""
        self.enumerator.close()
        manifest, self.rows, rejected = self.snapshots[snapshot]
        self.rows = list(self.rows)
        del self.rejected[rejected:]
        state, self.positions = json.loads(manifest)
        self._start(state)
        self.enumerator.checkpoint_completed(dict(self.positions))

    def is_finished(self) -> bool:
        splits = self.enumerator.discover(self.now)
        start = self.enumerator.initial_position
        return all(self.enumerator.is_finished(s, self.positions.get(s, start(s))) for s in splits)

    def to_end(self, budget: ReadBudget = PLENTY, each: Callable[[], None] = lambda: None) -> list[Any]:
        """All records from here to the end of a bounded source."""
        for _ in range(100_000):
            if self.is_finished():
                return self.rows
            assert self.epoch(budget)
            each()
        raise AssertionError("the source does not end")


def read_all(source: Source, directory: Path, budget: ReadBudget = PLENTY) -> list[Any]:
    """All records of a bounded source."""
    return SourceRun(source, directory).to_end(budget)


@dataclass
class SinkRun:
    """A job that only writes."""

    sink: Sink
    kind: TypeInformation
    parallelism: int = 1
    generation: int = 1
    epoch: int = 0
    in_progress: Any = None

    def __post_init__(self) -> None:
        self.sink = pickle.loads(pickle.dumps(self.sink))
        self.sink.validate(self.kind)
        self.committer = self.new_committer()

    def new_committer(self) -> Committer:
        context = CommitterContext("job", "sink", self.kind, self.generation, self.epoch)
        self.sink.check_output(context)
        committer = self.sink.create_committer(context)
        assert committer is not None
        return committer

    def restart(self) -> None:
        """Another job manager takes over, and everything was committed."""
        self.generation += 1
        self.committer = self.new_committer()
        self.committer.recover(self.in_progress)

    def write(self, rows: Sequence[Any], now: int = 0, subtask: int = 0, epoch: int | None = None) -> list[Any]:
        """Write some records of an epoch in a task; gives what is to be committed."""
        writer = self.sink.create_writer(
            WriterContext("job", "sink", self.generation, subtask, self.parallelism, self.kind)
        )
        writer.begin_epoch(WriterEpoch(epoch or self.epoch, now))
        half = len(rows) // 2
        for part in (rows[:half], rows[half:]):
            writer.write(batch_of(self.kind, part))
        return through_json(list(writer.prepare_commit())) if self.sink.is_durable else list(writer.prepare_commit())

    def prepare(self, committables: Sequence[Any], now: int = 0, *, is_last: bool = False) -> list[Any]:
        """What is to be committed with an epoch's manifest."""
        if self.sink.pre_commit is None:
            return list(committables)
        prepared = self.sink.pre_commit.prepare(self.in_progress, committables, now, is_last=is_last)
        self.in_progress = through_json(prepared.in_progress)
        return list(through_json(prepared.ready))

    def run_epoch(self, rows: Sequence[Any], now: int = 0, *, is_last: bool = False) -> list[Any]:
        """Write and commit an epoch; the records go to the subtasks in turn."""
        self.epoch += 1
        committables = []
        for subtask in range(self.parallelism):
            committables += self.write(rows[subtask :: self.parallelism], now, subtask)
        ready = self.prepare(committables, now, is_last=is_last)
        self.committer.commit(self.epoch, ready, now)
        return ready

    def end(self, now: int = 0) -> None:
        """The job ends with an epoch without records."""
        self.run_epoch([], now, is_last=True)
        self.committer.finish()


def batch_of(kind: TypeInformation, rows: Sequence[Any], *, columnar: bool = False) -> Batch:
    """A batch without event time."""
    times = [NO_TIMESTAMP] * len(rows)
    batch = Batch.of_rows(kind, rows, times, times)
    if not columnar:
        return batch
    return Batch(kind, batch.timestamps, batch.watermarks, columns=batch.columns)
