"""Merging runs: which function merges those of which kind, and which of them are merged within the task.

A run says its kind in ``meta["kind"]``. Small recent runs are merged by the task itself, so that a store never has more
than a few; :mod:`headrace.state.compaction` merges larger ones beside the epochs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import StateError
from headrace.state.keys.hashing import HASH_END
from headrace.state.runs.layout import (
    ACTION,
    CLEAR,
    ELEMENT_COUNT,
    ENTRY,
    ENTRY_KEY,
    EXPIRY,
    HASH,
    KEY,
    KEY_ORDER,
    KIND,
    PLACE,
    PUT,
    REINSERTED,
    REMOVED,
    SORT,
    SUBTASK_LIST,
    TIMERS,
    VALUE,
    list_columns,
    rows_as_they_happened,
    rows_of_ranges,
    sorted_lists,
)
from headrace.state.runs.merge_input import (
    LOW,
    Combine,
    MergeInput,
    aged,
    by_key,
    described,
    floor_of,
    is_ordered,
    lasts_of,
    newest,
    ordered_merger,
    owned,
    rows_above,
    time_at,
)
from headrace.state.runs.run import HashRange, Run, RunStore, hashes_of, one_batch, starts_of_levels
from headrace.state.runs.sections import Section

_ToLists = Callable[[npt.NDArray[np.int64], dict[str, pa.Array]], dict[str, pa.Array]]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Merger = Callable[[MergeInput], pa.RecordBatch | pa.Table | None]
Describe = Callable[[dict[str, Any], pa.RecordBatch], dict[str, Any]]
Place = tuple[int, int]
"""A time and a hash, by which ordered rows are sorted first."""


def merge_values(given: MergeInput) -> pa.RecordBatch:
    """One row per key: the newest. A tombstone (null) goes when nothing older is left that it could hide."""
    table = given.table()
    order, firsts = by_key(table)
    newest = table.take(pa.array(order[lasts_of(firsts)]))
    gone = _expired(newest, given)
    if gone is not None:
        newest = _without_values(newest, gone)
    return newest.filter(newest.column(VALUE).is_valid()) if given.is_oldest else newest


def merge_lists(given: MergeInput) -> pa.RecordBatch:
    """One row per key: the elements since the last row that made everything older void."""
    nested = _Nested.of(given.table())
    expired = _expired(nested.elements, given)
    if expired is not None:
        nested = nested.keep(np.flatnonzero(~expired))
    return nested.to_rows(given.is_oldest)


def merge_maps(given: MergeInput) -> pa.RecordBatch:
    """One row per key: for every entry what all its actions together do."""
    nested = _Nested.of(given.table())
    chosen, placed, actions = _final_actions(nested)
    expired = _expired(nested.elements, given)
    names = nested.elements.column(ENTRY).take(pa.array(placed)) if ENTRY in nested.elements.schema.names else None
    nested = nested.keep(chosen)
    if expired is not None:
        gone = expired[chosen]
        actions[gone] = REMOVED
        nested.elements = _without_values(nested.elements, gone)
    if names is not None:  # as in a dict, the object that was put first stays
        nested.elements = _with_column(nested.elements, ENTRY, names)
    # Where nothing older counts, there is nothing to remove, and every entry is a new one.
    alone = np.ones(len(nested.group), dtype=bool) if given.is_oldest else nested.cleared[nested.group]
    actions = np.where(alone & (actions == REINSERTED), PUT, actions).astype(np.int8)
    nested.elements = _with_column(nested.elements, ACTION, pa.array(actions))
    return nested.keep(np.flatnonzero(~(alone & (actions == REMOVED)))).to_rows(given.is_oldest, sorted_lists)


@dataclass(slots=True)
class _Nested:
    """Rows with several elements per key, taken apart.

    Attributes:
        heads: hash and key of each group (one group per key).
        cleared: whether what is older than the group is void.
        group: the group of each element, never falling.
        elements: the elements that count, in the order in which they were added.
    """

    heads: pa.RecordBatch
    cleared: Mask
    group: Indices
    elements: pa.RecordBatch

    @staticmethod
    def of(table: pa.RecordBatch) -> "_Nested":
        """Takes the rows of several runs apart, oldest first; rows that a newer one makes void are left out."""
        order, firsts = by_key(table)
        number = np.arange(len(order))
        clears = np.where(np.asarray(table.column(CLEAR)).astype(bool)[order], number, -1)
        last_clear = np.maximum.reduceat(clears, np.flatnonzero(firsts))
        groups = np.cumsum(firsts) - 1
        counts = number >= last_clear[groups]
        rows, groups = order[counts], groups[counts]
        names = [field.name for field in table.schema if pa.types.is_list(field.type)]
        starts, lengths = _extents(table.column(names[0]), rows)
        if PLACE in names:
            names.remove(PLACE)
            indices = pa.array(rows_as_they_happened(starts, lengths, table.column(PLACE).values))
        else:
            indices = pa.array(rows_of_ranges(starts, lengths))
        arrays = [table.column(name).values.take(indices) for name in names]
        return _Nested(
            heads=table.select([HASH, KEY]).take(pa.array(order[firsts])),
            cleared=last_clear >= 0,
            group=np.repeat(groups, lengths),
            elements=pa.RecordBatch.from_arrays(arrays, names=names),
        )

    def keep(self, chosen: Indices) -> "_Nested":
        """The same with only these elements, in this order."""
        return _Nested(self.heads, self.cleared, self.group[chosen], self.elements.take(pa.array(chosen)))

    def to_rows(self, is_oldest: bool, lists_of: _ToLists = list_columns) -> pa.RecordBatch:
        """One row per group; groups that say nothing are left out."""
        lengths = np.bincount(self.group, minlength=len(self.cleared))
        cleared = np.zeros_like(self.cleared) if is_oldest else self.cleared
        kept = np.flatnonzero((lengths > 0) | cleared)
        heads = self.heads.take(pa.array(kept))
        # The groups that are left out have no elements.
        lists = lists_of(lengths[kept], dict(zip(self.elements.schema.names, self.elements.columns, strict=True)))
        return pa.RecordBatch.from_pydict(
            {HASH: heads.column(HASH), KEY: heads.column(KEY), CLEAR: pa.array(cleared[kept]), **lists}
        )


def _extents(lists: pa.ListArray, rows: Indices) -> tuple[Indices, Indices]:
    """Return where the elements of the rows begin in ``lists.values``, and how many there are."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets[rows], offsets[rows + 1] - offsets[rows]


def _final_actions(nested: _Nested) -> tuple[Indices, Indices, npt.NDArray[np.int8]]:
    """For each entry of each group, in the order of insertion: what decides its value, what its place, its action."""
    actions = nested.elements.column(ACTION).to_numpy().astype(np.int8)
    codes = nested.elements.column(ENTRY_KEY).dictionary_encode().indices.to_numpy()
    order = np.lexsort((codes, nested.group))  # stable: the actions of an entry stay in their order
    if not len(order):
        return order, order, actions
    code, group = codes[order], nested.group[order]
    firsts = np.ones(len(order), dtype=bool)
    firsts[1:] = (code[1:] != code[:-1]) | (group[1:] != group[:-1])
    starts, lasts = np.flatnonzero(firsts), np.flatnonzero(lasts_of(firsts))
    number = np.arange(len(order))
    # The last action that took the entry from its place, and the one that put it into its present place.
    broken = np.maximum.reduceat(np.where(actions[order] != PUT, number, -1), starts)
    after = np.minimum(broken + (actions[order][broken] == REMOVED), lasts)
    placed = np.where(broken < 0, starts, after)
    final = np.where(broken < 0, PUT, REINSERTED).astype(np.int8)
    final[actions[order[lasts]] == REMOVED] = REMOVED
    in_order = np.lexsort((order[placed], group[starts]))
    return order[lasts][in_order], order[placed][in_order], final[in_order]


def _expired(table: pa.RecordBatch, given: MergeInput) -> Mask | None:
    """Return which rows have expired; None when none can."""
    if not given.drops_expired or EXPIRY not in table.schema.names:
        return None
    expiries = table.column(EXPIRY)
    return np.asarray(pc.fill_null(pc.less_equal(expiries, given.now), False)).astype(bool)


def _without_values(batch: pa.RecordBatch, gone: Mask) -> pa.RecordBatch:
    """Rows that have expired as rows of what was removed: nothing of them is left that could expire again."""
    mask = pa.array(gone)
    for name in (VALUE, EXPIRY) if gone.any() else ():
        batch = _with_column(batch, name, pc.if_else(mask, None, batch.column(name)))
    return batch


def _with_column(batch: pa.RecordBatch, name: str, array: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), name, array)


INLINE_ROWS: Final = 1 << 18
"""More rows, or elements of lists, are left to compaction, unless there are too many runs."""

MANY_RUNS: Final = 5
"""From more runs than this on, compaction merges even what is small or of unequal size."""

MAX_RUNS: Final = 20
"""The most runs that a key may be in without compaction; then the newest are merged, however large they are."""

GROWTH: Final = 2
"""A run is merged with newer ones once these have half as many rows: a row is rewritten log2(rows) times or so."""

MOST_BYTES: Final = 1 << 28
"""Ordered runs of more bytes together are not merged, which takes three times as much memory."""

MOST_INLINE_BYTES: Final = 1 << 26
"""The same for any runs within a task, which has an epoch in memory besides."""

_MOST_TIMES: Final = 4
"""An epoch that has added many rows can afford to write so many times as many anew."""


def _unchanged(meta: dict[str, Any], _: pa.RecordBatch) -> dict[str, Any]:
    return meta


def _counted(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    return aged({**meta, ELEMENT_COUNT: len(batch.column(VALUE).flatten())}, batch)


def register_merger(kind: str, merger: Merger, describe: Describe = _unchanged) -> None:
    """Makes ``merger`` merge runs whose ``meta["kind"]`` is ``kind``.

    It gets the runs, oldest first, and returns the rows of the merged run, sorted as the ``meta["sort"]`` of the
    newest run says. It must be a pure function of them: compaction may run it in any process, which has to have
    imported the module that calls this. Where runs are sorted by hash, it may get the rows of a range of hashes alone,
    so what it makes of a key has to follow from the rows of that key. Runs that say no kind keep all rows.
    ``describe`` is given the ``meta`` of the newest run and the merged rows, and returns the ``meta`` of the merged
    run; it is needed where ``meta`` says something about the rows of the run.
    """
    _MERGERS[kind] = (merger, describe)


def register_ordered_merger(kind: str, combine: Combine) -> None:
    """Makes ``combine`` merge ordered runs whose ``meta["kind"]`` is ``kind``; see :func:`register_merger`.

    It gets the rows that are not over, all of them or those of some times and hashes.
    """
    register_merger(kind, ordered_merger(combine), described)


def merge_runs(runs: Sequence[Run], *, is_oldest: bool, now: int) -> tuple[pa.RecordBatch | None, dict[str, Any]]:
    """The rows of the run that replaces ``runs`` (oldest first, following one another), and its ``meta``.

    ``is_oldest`` says that no run is older than these, ``now`` is what time it is, in the time that elements age in.

    Raises:
        StateError: when no merger of their kind is known in this process.
    """
    given = MergeInput(runs, is_oldest, now)
    merger, describe = _merger_of(given.meta.get(KIND))
    merged = merger(given)
    if merged is None or not merged.num_rows:
        return None, given.meta
    batch = one_batch(merged)
    return batch, describe(given.meta, batch)


def describe_run(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """The ``meta`` of a run with these rows, after the model of another one of its kind.

    Raises:
        StateError: when no merger of the kind is known in this process.
    """
    return _merger_of(meta.get(KIND))[1](meta, batch)


def _merger_of(kind: str | None) -> tuple[Merger, Describe]:
    """Return how runs of a kind are merged; to keep all their rows without knowing them would be a guess."""
    if kind is None:
        return _merge_sorted, _unchanged
    try:
        return _MERGERS[kind]
    except KeyError:
        raise StateError(
            f"runs of the kind {kind!r} cannot be merged in this process: it has not imported the module that calls "
            f"register_merger({kind!r}, …)"
        ) from None


def merge_small_runs(store: RunStore, now: int, most_rows: int | None = None) -> None:
    """Merges the newest runs of a store where that is due.

    Args:
        store: the store.
        now: what time it is, in milliseconds of the time that elements age in.
        most_rows: runs of more rows together are left to compaction, unless there are too many; by default
            ``INLINE_ROWS``.
    """
    runs = store.runs
    start = _start_of_merge(runs, INLINE_ROWS if most_rows is None else min(most_rows, INLINE_ROWS))
    if start < len(runs) - 1:
        old = runs[start:]
        table, meta = merge_runs(old, is_oldest=start == 0, now=now)
        store.replace(old, table, meta)


def can_be_rewritten(rows: int, size: int, added: int) -> bool:
    """Return whether an epoch can afford to write rows anew, only to leave out what is over.

    Args:
        rows: how many there are.
        size: the bytes that they take.
        added: how many rows the epoch has added.
    """
    return rows <= max(INLINE_ROWS, _MOST_TIMES * added) and size <= MOST_BYTES


def _start_of_merge(runs: Sequence[Run], most_rows: int) -> int:
    """The first of the runs that are to be merged with all that are newer."""
    start = len(runs) - 1
    if start < 0:
        return start
    lowest = next((index + 1 for index in range(start, -1, -1) if runs[index].section.is_table), 0)
    rows = runs[start].weight
    while start > lowest and runs[start - 1].weight <= GROWTH * rows and rows + runs[start - 1].weight <= most_rows:
        start -= 1
        rows += runs[start].weight
    # Too many: merge so that half of the allowed levels are left, and it is some time until that is due again.
    levels = starts_of_levels([run.hashes for run in runs[:start]])
    return _start_of_fitting(runs, start if len(levels) < MAX_RUNS else max(lowest, levels[MAX_RUNS // 2 - 1]))


def _start_of_fitting(runs: Sequence[Run], start: int) -> int:
    """The first, from ``start`` on, of the runs that are not too large together."""
    size = 0
    for index in range(len(runs) - 1, start - 1, -1):
        size += runs[index].section.nbytes
        if size > MOST_INLINE_BYTES:
            return index + 1
    return start


def _merge_sorted(given: MergeInput) -> pa.RecordBatch:
    """All rows, in the order of the columns that ``meta["sort"]`` names; rows that are equal there stay in order."""
    table = given.table()
    columns = given.meta.get(SORT, [])
    if not columns:
        return table
    sequence = pa.array(np.arange(table.num_rows))
    keyed = pa.table([*(table.column(name) for name in columns), sequence], names=[*map(str, range(len(columns) + 1))])
    order = pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in keyed.column_names])
    return table.take(order)


_MERGERS: dict[str, tuple[Merger, Describe]] = {
    "value": (merge_values, aged),
    "reducing": (merge_values, aged),
    "aggregating": (merge_values, aged),
    "list": (merge_lists, _counted),
    "map": (merge_maps, _counted),
    TIMERS: (ordered_merger(newest), described),
    SUBTASK_LIST: (_merge_sorted, _unchanged),
}


def merged_in_order(runs: Sequence[Run], rows: int, now: int) -> Iterator[tuple[pa.RecordBatch, dict[str, Any]]]:
    """The merged rows of ordered runs, in pieces that follow one another.

    Args:
        runs: all runs of a store, oldest first.
        rows: about so many rows are merged at once; more where more have the same time and hash.
        now: as of ``merge_runs``.

    Yields:
        Merged rows, and what their run would say about itself.
    """
    rests = [_Rest(run) for run in runs]
    while left := [rest for rest in rests if not rest.is_over]:
        place = _next_place(left, rows)
        taken = [batch for rest in left if (batch := rest.take(place)).num_rows]
        if not taken:  # all of them are of keys of other tasks
            continue
        meta = {**runs[-1].meta, LOW: 0}
        parts = [Run(Section(batch), meta, runs[-1].hashes) for batch in taken]
        merged, about = merge_runs(parts, is_oldest=True, now=now)
        if merged is not None:
            yield merged, about


def _next_place(rests: "Sequence[_Rest]", rows: int) -> Place:
    """Up to where to merge next, so that this is about so many rows."""
    step = rows
    while True:
        place = min(rest.place(step) for rest in rests)
        if step == 1 or sum(rest.rows_up_to(place) for rest in rests) <= rows:
            return place
        step = -(-step // 2)


class _Rest:
    """The rows of an ordered run that are not over, as far as they have not been taken."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._row = floor_of(run).row

    @property
    def is_over(self) -> bool:
        """Return whether no rows are left."""
        return self._row == self._run.rows

    def place(self, rows: int) -> Place:
        """The time and hash of the last of so many rows, or of all where fewer are left."""
        last = min(self._row + rows, self._run.rows) - 1
        return time_at(self._run, last), self._run.section.rows_of(HASH, last, last + 1)[0].as_py()

    def rows_up_to(self, place: Place) -> int:
        """Return how many rows are not behind a place."""
        return self._end(place) - self._row

    def take(self, place: Place) -> pa.RecordBatch:
        """The rows that are not behind a place, of keys that the task owns; they are not left any more."""
        start, self._row = self._row, self._end(place)
        return owned(self._run, self._run.section.slice(start, self._row))

    def _end(self, place: Place) -> int:
        time, hash_ = place
        section, column = self._run.section, self._run.meta[SORT][0]
        first = section.lower_bound(column, np.int64(time), self._row, self._run.rows)
        end = rows_above(self._run, time, first).row
        if first == end or hash_ == HASH_END - 1:
            return end
        return section.lower_bound(HASH, np.uint64(hash_ + 1), first, end)


Piece = tuple[pa.RecordBatch, dict[str, Any]]
"""Merged rows, and what their run would say about itself."""

CHUNK_ROWS: Final = 1 << 16
CHUNK_BYTES: Final = 8 << 20
"""The rows, or elements of lists, and bytes that are merged at once, as far as hashes are spread evenly."""

_BY_KEY: Final = frozenset({"value", "reducing", "aggregating", "list", "map"})
"""The kinds of keyed state, which have one row for each key."""


def is_by_key(meta: dict[str, Any]) -> bool:
    """Return whether what is merged of a key in runs that say this about themselves follows from its own rows alone."""
    return meta.get(KIND) in _BY_KEY and meta.get(SORT) == KEY_ORDER


def is_by_hash(meta: dict[str, Any]) -> bool:
    """Return whether runs that say this about themselves are sorted by hash first, as keyed state and some logs are."""
    return bool(meta.get(SORT, [])[:1] == [HASH])


def merged_pieces(runs: Sequence[Run], now: int) -> Iterator[Piece]:
    """All rows of a store, in pieces: lists of subtasks, which these have in memory, are one; as of ``merge_runs``."""
    if all(is_by_hash(run.meta) for run in runs):
        yield from merged_in_ranges(runs, is_oldest=True, now=now)
    elif all(is_ordered(run.meta) for run in runs):
        yield from merged_in_order(runs, _rows_at_once(runs), now)
    else:
        batch, meta = merge_runs(runs, is_oldest=True, now=now)
        if batch is not None:
            yield batch, meta


def _rows_at_once(runs: Sequence[Run]) -> int:
    """Return how many rows of runs are merged at once, by what one takes."""
    rows, size = sum(run.rows for run in runs), sum(run.section.nbytes for run in runs)
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES * rows // max(1, size)))


def merged_in_ranges(runs: Sequence[Run], *, is_oldest: bool, now: int) -> Iterator[Piece]:
    """The merged rows of runs by key, range of hashes by range of hashes; arguments as of ``merge_runs``."""
    rows, size = sum(run.weight for run in runs), sum(run.section.nbytes for run in runs)
    for hashes in equal_ranges(hashes_of(runs), 1 + max(rows // CHUNK_ROWS, size // CHUNK_BYTES)):
        parts = [_part(run, hashes) for run in runs]
        if any(part.rows for part in parts):  # all of them, since a row has the columns of all
            batch, meta = merge_runs(parts, is_oldest=is_oldest, now=now)
            if batch is not None:
                yield batch, meta


def equal_ranges(hashes: HashRange, count: int) -> list[HashRange]:
    """A range of hashes in so many parts of the same size.

    >>> equal_ranges((0, 100), 4)
    [(0, 25), (25, 50), (50, 75), (75, 100)]
    """
    low, high = hashes
    return list(pairwise(low + (high - low) * number // count for number in range(count + 1)))


def _part(run: Run, hashes: HashRange) -> Run:
    """The rows of a run with these hashes, as far as they count."""
    start, stop = max(hashes[0], run.hashes[0]), min(hashes[1], run.hashes[1])
    if start < stop:
        return Run(Section(run.section.between((start, stop))), run.meta, run.hashes)
    return Run(Section(pa.RecordBatch.from_pylist([], run.section.schema)), run.meta, run.hashes)
