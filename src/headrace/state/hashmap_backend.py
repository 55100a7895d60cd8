"""``HashMapBackend``: keeps runs in state files, merges them beside the epochs, and exports their tables."""

from __future__ import annotations

from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import StateError
from headrace.state.backend import StateBackendPlugin
from headrace.state.compaction import plan_compaction, run_compaction
from headrace.state.exported import NAMESPACE, ExportedTable
from headrace.state.keyed.backend import EARLIER_WINDOW_STATE, NAMESPACED_PREFIX
from headrace.state.keyed.namespaces import decoded_pair, ordered_bytes
from headrace.state.run_entries import RunHead
from headrace.state.runs.layout import ACTION, CLEAR, ENTRY_HASH, HASH, KEY, KIND, PLACE, TIMERS, TTL
from headrace.state.runs.list_columns import rows_as_they_happened
from headrace.state.runs.ordered import LIVE
from headrace.state.runs.range_merging import merged_pieces
from headrace.state.runs.sections import Section
from headrace.state.task_state import HashMapTaskStates
from headrace.state.ttl import IN_EVENT_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.state.backend import NewVersion, StateOwner
    from headrace.state.compaction import CompactionResult, CompactionTask
    from headrace.state.runs import Run
    from headrace.state.runs.range_merging import Piece
    from headrace.state.task_state import SectionOf
    from headrace.state.version import VersionRef
    from headrace.storage.folder import Folder


_OF_RUNS: Final = {ACTION, CLEAR, ENTRY_HASH, HASH, PLACE}
"""Columns that say how runs of keyed state are to be merged, or found in."""

_STORAGE: Final = {"int64": pa.int64(), "string": pa.string(), "binary": pa.binary()}


def exported(stores: Mapping[tuple[str, str], Sequence[Run]], now: int) -> Iterator[ExportedTable]:
    """The tables of a task, by operator and store.

    Args:
        stores: the runs of each store, oldest first, by the uid of its operator and its name.
        now: processing time in milliseconds; what has expired by then is left out.

    Raises:
        StateError: when a store is in the form of an earlier version.
    """
    for (uid, store), runs in sorted(stores.items()):
        if store.startswith(EARLIER_WINDOW_STATE):
            raise StateError(
                f"operator {uid!r}: {store!r} was stored by an earlier version, and has not been used since; run the "
                "job for one epoch first"
            )
        pieces = merged_pieces(runs, _time_of(runs, now))
        first = next(pieces, None)
        if first is None:
            continue
        rows, about = _exported_rows(store, *first), first[1]
        others = map(partial(_exported_piece, store), pieces)
        yield ExportedTable(uid, store, about, rows.schema, chain([rows], others), is_in_order=True)


def _exported_piece(store: str, piece: Piece) -> pa.RecordBatch:
    return _exported_rows(store, *piece)


def _exported_rows(store: str, batch: pa.RecordBatch, about: dict[str, Any]) -> pa.RecordBatch:
    rows = _rows_of(batch, about)
    return _with_namespaces(rows, about["keys"]["key"]) if store.startswith(NAMESPACED_PREFIX) else rows


def _rows_of(batch: pa.RecordBatch, about: dict[str, Any]) -> pa.RecordBatch:
    kind = about.get(KIND)
    if kind in ("list", "map"):
        return _elements(batch)
    hashes = {HASH} if KEY in batch.schema.names else set()  # without keys they say something else
    return _without(batch, {*hashes, LIVE} if kind == TIMERS else hashes)


def _elements(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A row for each element of lists, or for each entry of maps in the order of insertion."""
    lists = [field.name for field in batch.schema if pa.types.is_list(field.type)]
    lengths = batch.column(lists[0]).value_lengths().to_numpy().astype(np.int64)
    offsets = batch.column(lists[0]).offsets.to_numpy().astype(np.int64)
    if PLACE in lists:
        order = rows_as_they_happened(offsets[:-1], lengths, batch.column(PLACE).values)
    else:
        order = np.arange(offsets[0], offsets[-1])
    names = [name for name in lists if name not in _OF_RUNS]
    keys = batch.column(KEY).take(pa.array(np.repeat(np.arange(batch.num_rows), lengths)))
    indices = pa.array(order)
    return pa.RecordBatch.from_pydict({KEY: keys, **{name: batch.column(name).values.take(indices) for name in names}})


def _with_namespaces(batch: pa.RecordBatch, keys: dict[str, Any]) -> pa.RecordBatch:
    """Pairs of key and namespace as two columns."""
    pairs = [decoded_pair(data) for data in batch.column(KEY).to_pylist()]
    columns = {
        KEY: pa.array([key for key, _ in pairs], _STORAGE[keys["storage"]]),
        NAMESPACE: pa.array([ordered_bytes(namespace) for _, namespace in pairs], pa.binary()),
    }
    rest = {name: batch.column(name) for name in batch.schema.names if name != KEY}
    return pa.RecordBatch.from_pydict({**columns, **rest})


def _without(batch: pa.RecordBatch, names: set[str]) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name not in names])


def _time_of(runs: Sequence[Run], now: int) -> int:
    """What time it is for the elements of a store; of one that ages in event time all that is there is taken along."""
    return MIN_WATERMARK if runs[-1].meta.get(TTL) == IN_EVENT_TIME else now


class HashMapBackend(StateBackendPlugin):
    """State in columns, in files that are mapped into memory; only what has changed is written."""

    def sections(self, storage: Folder) -> SectionOf:
        """What opens the sections that an index describes."""
        return Section.stored

    def open(
        self,
        storage: Folder,
        refs: Sequence[VersionRef],
        stage: int,
        partition: int,
        operators: Mapping[str, StateOwner],
    ) -> HashMapTaskStates:
        return HashMapTaskStates.open(storage, refs, stage, partition, operators, self.sections(storage))

    def export_tables(self, storage: Folder, ref: VersionRef, now: int) -> Iterator[ExportedTable]:
        if not ref.is_empty:
            yield from exported(HashMapTaskStates.stored_runs(storage, ref, self.sections(storage)), now)

    def heads(self, storage: Folder, ref: VersionRef) -> Iterator[RunHead]:
        if not ref.is_empty:
            stores = HashMapTaskStates.stored_runs(storage, ref, self.sections(storage))
            for (uid, store), runs in stores.items():
                yield from (RunHead(uid, store, run.meta, run.section.schema) for run in runs)

    def import_tables(
        self, storage: Folder, tables: Iterable[ExportedTable], version: NewVersion, operators: Mapping[str, StateOwner]
    ) -> VersionRef:
        task = HashMapTaskStates(storage, version.stage, version.partition, operators)
        task.fill(tables, version)
        return task.snapshot(version.epoch, version.generation, version.inline_threshold)

    def rename_operators(
        self,
        storage: Folder,
        ref: VersionRef,
        uids: Mapping[str, str],
        version: NewVersion,
        operators: Mapping[str, StateOwner],
    ) -> VersionRef:
        task = HashMapTaskStates.open(
            storage, [ref], version.stage, version.partition, operators, self.sections(storage)
        )
        task.rename_operators(uids)
        return task.snapshot(version.epoch, version.generation, version.inline_threshold)

    def verify(self, storage: Folder, ref: VersionRef) -> None:
        for runs in HashMapTaskStates.stored_runs(storage, ref, self.sections(storage)).values():
            for run in runs:
                run.section.verify()

    def plan_compaction(
        self,
        storage: Folder,
        ref: VersionRef,
        now: int,
        generation: int,
        event_times: Mapping[str, int] = MappingProxyType({}),
    ) -> list[CompactionTask]:
        return plan_compaction(storage, ref, now, generation, event_times=event_times)

    def run_compaction(self, storage: Folder, work: CompactionTask) -> CompactionResult:
        return run_compaction(storage, work)
