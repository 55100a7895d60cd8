"""Readers of whole tables to look rows up in, and the times at which tables are reloaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.connectors.source import EnumeratorContext, ReadBudget, ReaderContext, Source, SplitEnumerator
from headrace.state.runs.merge_input import concat
from headrace.storage.folder import posix_folder

_DAY: Final = 24 * 60 * 60 * 1000

_EVERYTHING: Final = ReadBudget(1 << 62, 1 << 62)


class TableReader(ABC):
    """Reads a whole table.

    Attributes:
        never_changes: whether it always reads the same.
    """

    never_changes: bool = False

    @abstractmethod
    def read(self, now: int) -> pa.RecordBatch:
        """The rows.

        Args:
            now: the clock of the job, in milliseconds.
        """


@dataclass(frozen=True)
class StaticTable(TableReader):
    """Rows as they were when the job was built."""

    rows: pa.RecordBatch
    never_changes = True

    def read(self, now: int) -> pa.RecordBatch:
        return self.rows


@dataclass(frozen=True)
class SourceTable(TableReader):
    """The rows that a bounded source has when it is asked.

    Attributes:
        source: the source.
        storage_options: how object stores are reached.
    """

    source: Source[Any]
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def read(self, now: int) -> pa.RecordBatch:
        schema = layout_of(self.source.produced_type).schema
        with TemporaryDirectory() as folder:
            options = dict(self.storage_options)
            context = EnumeratorContext(1, posix_folder(Path(folder)), storage_options=options)
            splits = self.source.create_enumerator(context)
            reader = self.source.create_reader()
            reader.open(ReaderContext(options))
            try:
                parts = [part for piece in pieces_of(splits, now) for part in reader.read(piece)]
            finally:
                reader.close()
        layout = layout_of(self.source.produced_type)
        columns = [layout.rows_to_columns(part.rows or []) if part.columns is None else part.columns for part in parts]
        return concat([pa.RecordBatch.from_pylist([], schema), *columns])


def pieces_of(splits: SplitEnumerator, now: int) -> Iterator[Any]:
    """All that there is to read of a bounded source."""
    for split in splits.discover(now):
        position = splits.initial_position(split)
        while (planned := splits.plan(split, position, _EVERYTHING, now)) is not None:
            yield from planned.pieces
            position = planned.end


@dataclass(frozen=True, slots=True)
class ReloadTrigger:
    """Has a table read again before an epoch, by the clock of the job (Flink's ``CacheReloadTrigger``).

    Attributes:
        interval: the milliseconds between two reads; None to read the table once.
        at: the time of day in UTC, in milliseconds, at which it is read if the interval is a number of days; None for
            any.
    """

    interval: int | None = None
    at: int | None = None

    def is_due(self, read_at: int, now: int) -> bool:
        """Return whether the table is to be read again.

        Args:
            read_at: when it was read.
            now: the time.
        """
        if self.interval is None:
            return False
        if self.at is None:
            return now - read_at >= self.interval
        begun = read_at - (read_at - self.at) % _DAY
        return now >= begun + max(self.interval, _DAY)
