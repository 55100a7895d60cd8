"""``KeySortedTable``: rows in the order of (hash, key, sort key), as joins, windows and aggregates by key keep them.

The rows of a key within a range of sort keys are found by binary search. A row may say by itself when it expires, so
nothing is written when it does.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.constants import MIN_WATERMARK
from headrace.state.keys import KeyColumn
from headrace.state.runs import HASH, Run, RunStore
from headrace.state.runs.grouping import in_order
from headrace.state.runs.layout import KEY, LIVE, REACHED, RETAINED_UNTIL, SHOWN, rows_of_ranges
from headrace.state.runs.merge_input import MergeInput, by_key, concat, lasts_of
from headrace.state.runs.merging import can_be_rewritten, merge_runs, merge_small_runs, register_merger
from headrace.state.runs.run import order_by_key
from headrace.state.runs.sections import Section
from headrace.state.sorted_table import SortedTable, TableLayout

Longs = npt.NDArray[np.int64]

Hashes = npt.NDArray[np.uint64]


class KeySortedTable(SortedTable[Section]):
    """Rows in the order of (hash, key, sort key); the sort key is an integer, such as a time.

    The rows of a key within a range of sort keys are found by binary search. Rows that are equal in these stay in the
    order in which they came.

    A row with a column ``RETAINED_UNTIL`` says by itself at which watermark it expires, so nothing is written when it
    does: rows that have expired are passed over, go when runs are merged, and a run goes when all its rows have.

    Args:
        store: the runs.
        layout: what they hold.
        latest_only: whether what is appended of a key takes the place of all older rows of it, as windows of a key do
            that change together. A key of which nothing is left has a row whose column ``LIVE`` is false.
        replaces_rows: whether a row takes the place of an older one with its key and sort key, as rows do that change
            one by one. A row that is gone is one whose column ``LIVE`` is false.
    """

    def __init__(
        self, store: RunStore, layout: TableLayout, *, latest_only: bool = False, replaces_rows: bool = False
    ) -> None:
        combine = newest_of_keys if latest_only else newest_rows if replaces_rows else _all_by_key
        super().__init__(store, layout, combine, spills=not latest_only, most_alike=_MOST_ALIKE if latest_only else 0)
        self._latest_only = latest_only
        self._replaces_rows = replaces_rows
        self._expires = RETAINED_UNTIL in layout.schema.names
        self._watermark = MIN_WATERMARK

    def begin_epoch(self, watermark: int = MIN_WATERMARK) -> None:
        """Takes up what the last epoch left.

        At another parallelism a task begins with the lowest watermark of those before it. What one that was ahead has
        shown when it expired is left out then: it would be there again, and be shown again.
        """
        self._appended, self._watermark = [], watermark
        for run in self._store.runs:
            if run.meta.get(SHOWN, watermark) > watermark:
                left = _retained(run.batch, run.meta[SHOWN])
                if left.num_rows:
                    self._store.rewrite(run, left, _described_until({**run.meta, SHOWN: watermark}, left))
                else:
                    self._store.drop(run)

    def stored(self) -> pa.RecordBatch:
        """All rows that were stored when the epoch began, in order."""
        return live_rows(self._combine(self._meta, [run.batch for run in self._store.runs] or [self._nothing()]))

    def sections(self, watermark: int = MIN_WATERMARK) -> list[Section]:
        """The sections that may hold rows not expired at a watermark, oldest first. See :func:`key_ranges`."""
        runs = (run for run in self._store.runs if not self._expires or run.meta[RETAINED_UNTIL] > watermark)
        return [*(section for section in map(_own_section, runs) if section.rows), *self._appended]

    def find(self, keys: KeyColumn, sort_keys: tuple[Longs, Longs] | None = None) -> tuple[Longs, pa.RecordBatch]:
        """The rows of different keys, by key and sort key; and which of the keys each of them is of.

        Args:
            keys: the keys, in the order of hash and key.
            sort_keys: for each key from which sort key to which, both included; all where it is left out.
        """
        wanted = np.arange(len(keys))
        found: list[Longs] = []
        batches: list[pa.RecordBatch] = []
        for section in reversed(self.sections(self._watermark)):
            firsts, lasts = _ranges_of_keys(section, keys if len(wanted) == len(keys) else keys.take(wanted))
            places = np.flatnonzero(firsts < lasts)
            if not len(places):
                continue
            owners, firsts, lasts = wanted[places], firsts[places], lasts[places]
            if sort_keys is not None:
                firsts, lasts = _narrowed(section, firsts, lasts, sort_keys[0][owners], sort_keys[1][owners])
            found.append(np.repeat(owners, lasts - firsts))
            batches.append(_taken(section, rows_of_ranges(firsts, lasts - firsts)))
            if self._latest_only:
                is_wanted = np.ones(len(wanted), np.bool_)
                is_wanted[places] = False
                wanted = wanted[is_wanted]
            if not len(wanted):
                break
        if not found:
            return wanted[:0], self._nothing()
        which, batch = np.concatenate(found[::-1]), concat(batches[::-1])
        if self._expires:
            is_retained = batch.column(RETAINED_UNTIL).to_numpy() > self._watermark
            which, batch = which[is_retained], batch.filter(pa.array(is_retained))
        return self._in_order(which, batch, is_section=len(found) == 1)

    def _in_order(self, which: Longs, batch: pa.RecordBatch, *, is_section: bool) -> tuple[Longs, pa.RecordBatch]:
        """The rows of keys that count, by key and sort key; those of one section are in order, with no older ones."""
        if is_section:
            is_kept = np.asarray(batch.column(LIVE)) if self._replaces_rows else np.ones(len(which), np.bool_)
            return (which, batch) if is_kept.all() else (which[is_kept], batch.filter(pa.array(is_kept)))
        order = in_order(which) if self._latest_only else in_order(which, _sort_keys(batch))
        if self._replaces_rows:
            is_last = lasts_of(_are_others(which[order], _sort_keys(batch)[order]))
            order = order[is_last & np.asarray(batch.column(LIVE))[order]]
        return which[order], batch.take(pa.array(order))

    def append(self, batch: pa.RecordBatch, watermark: int = MIN_WATERMARK) -> None:
        """Adds rows, in order and newer than all others; those that have expired at a watermark are left out."""
        self._watermark = watermark
        super().append(_retained(batch, watermark))

    def end_epoch(self, watermark: int = MIN_WATERMARK, *, has_shown: bool = False) -> bool:
        """Puts what was added into state, and drops runs of which all rows have expired.

        Args:
            watermark: where event time is.
            has_shown: whether rows that have expired were shown in this epoch, as those without a partner are.

        Returns:
            Whether all runs were written anew.
        """
        self._watermark = watermark
        if self._expires:
            self._bring_to(watermark)
        batch = self._take_appended()
        if batch is not None and not self._store.runs:
            batch = live_rows(batch)  # where nothing older is stored, a key without rows has nothing to hide
        if batch is not None:
            meta = {**self._meta, REACHED: watermark} if self._expires else self._meta
            self._store.append(batch, _described_until(meta, batch))
        self._note_shown(watermark if has_shown else None)
        merge_small_runs(self._store, now=0)
        return self._expires and self._leave_out_expired(watermark, 0 if batch is None else batch.num_rows)

    def _piece(self, batch: pa.RecordBatch) -> Section:
        return Section(batch)

    def _rest(self, piece: Section) -> pa.RecordBatch:
        return _retained(piece.batch, self._watermark)

    def _note_shown(self, watermark: int | None) -> None:
        """Has all runs say how far rows have been shown, new ones too: of those that are merged the newest counts."""
        known = [watermark, *(run.meta.get(SHOWN) for run in self._store.runs)]
        shown = max((each for each in known if each is not None), default=None)
        for run in self._store.runs if shown is not None else ():
            if run.meta.get(SHOWN) != shown:
                self._store.annotate(run, **{SHOWN: shown})

    def _bring_to(self, watermark: int) -> None:
        """Drops runs that have expired as a whole; what is left knows of no watermark that the task has not reached.

        At another parallelism a task begins with the lowest watermark of those before it. One that was ahead has left
        runs of its own keys, by which merging must not take the rows of others to have expired.
        """
        for run in self._store.runs:
            if run.meta[RETAINED_UNTIL] <= watermark:
                self._store.drop(run)
            elif run.meta[REACHED] > watermark:
                self._store.annotate(run, **{REACHED: watermark})

    def _leave_out_expired(self, watermark: int, added: int) -> bool:
        """Writes all runs anew when most rows of the oldest one have expired, unless they are too large."""
        runs = self._store.runs
        size = sum(run.section.nbytes for run in runs)
        is_due = bool(runs) and _is_mostly_expired(runs[0], watermark)
        if not is_due or not can_be_rewritten(self._store.rows, size, added):
            return False
        for run in runs:  # an epoch without records has no run that says so
            self._store.annotate(run, **{REACHED: watermark})
        runs = self._store.runs
        self._store.replace(runs, *merge_runs(runs, is_oldest=True, now=0))
        return True

    def _nothing(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], self._schema)


def register_key_sorted_merger(kind: str, *, latest_only: bool = False, replaces_rows: bool = False) -> None:
    """Has runs of a kind merged as those of a :class:`KeySortedTable` are; see ``register_merger``."""
    merge = _merge_latest if latest_only else _merge_rows if replaces_rows else _merge_all
    register_merger(kind, merge, _described_until)


def key_ranges(
    source: Section, keys: KeyColumn, of_keys: Longs, lows: Longs, highs: Longs
) -> tuple[Longs, Longs, Longs]:
    """Return which probes find rows of their key from ``lows`` to ``highs``, and from where to where.

    Args:
        source: rows in the order of a :class:`KeySortedTable`.
        keys: different keys, by hash and key.
        of_keys: the key of each probe.
        lows: the first sort key that each probe looks for.
        highs: the last one.
    """
    firsts, lasts = _ranges_of_keys(source, keys)
    found = np.flatnonzero((firsts < lasts)[of_keys])
    if not len(found):
        return found, found, found
    owners = of_keys[found]
    starts, stops = _narrowed(source, firsts[owners], lasts[owners], lows[found], highs[found])
    is_any = starts < stops
    return found[is_any], starts[is_any], stops[is_any]


def key_sorted(hashes: Hashes, keys: pa.Array, sort_keys: Longs, *, are_runs: bool = False) -> tuple[Longs, Longs]:
    """The stable order of rows by hash, key and sort key; and, in that order, which key each is of, counted from 0.

    ``are_runs`` is that of ``order_by_key``.
    """
    order, firsts = order_by_key(hashes, keys, are_runs=are_runs)
    numbers = np.cumsum(firsts) - 1
    own = sort_keys[order]
    if ((own[1:] < own[:-1]) & ~firsts[1:]).any():
        order = order[in_order(numbers, own)]
    return order, numbers


def live_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without those that only say that nothing is left of a key."""
    return batch.filter(batch.column(LIVE)) if LIVE in batch.schema.names else batch


def _all_by_key(_: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    whole = concat(batches)
    if len(batches) == 1:
        return whole
    order, _numbers = key_sorted(whole.column(HASH).to_numpy(), whole.column(KEY), _sort_keys(whole), are_runs=True)
    return whole.take(pa.array(order))


def newest_of_keys(_: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Of each key the rows of the last one of the batches that has any."""
    if len(batches) == 1:
        return batches[0]
    whole = concat(batches)
    numbers = np.repeat(np.arange(len(batches)), [batch.num_rows for batch in batches])
    order, firsts = by_key(whole)
    numbers = numbers[order]
    is_newest = numbers == numbers[lasts_of(firsts)][np.cumsum(firsts) - 1]
    return whole.take(pa.array(order[is_newest]))


def newest_rows(_: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The newest row of each key and sort key, from batches in order of age."""
    whole = concat(batches)
    sort_keys = _sort_keys(whole)
    order, numbers = key_sorted(whole.column(HASH).to_numpy(), whole.column(KEY), sort_keys, are_runs=True)
    return whole.take(pa.array(order[lasts_of(_are_others(numbers, sort_keys[order]))]))


def _are_others(numbers: Longs, sort_keys: Longs) -> npt.NDArray[np.bool_]:
    """True for each row whose key or sort key differs from the row before."""
    is_other = np.ones(len(numbers), np.bool_)
    is_other[1:] = (numbers[1:] != numbers[:-1]) | (sort_keys[1:] != sort_keys[:-1])
    return is_other


def _merge_latest(given: MergeInput) -> pa.RecordBatch:
    """One run of several; a key without rows is gone where nothing older is left that it could hide."""
    merged = newest_of_keys(given.meta, [run.batch for run in given.runs])
    return live_rows(merged) if given.is_oldest else merged


def _merge_all(given: MergeInput) -> pa.RecordBatch:
    """The rows that no run of the same task knows to be expired or shown; a pure function of the runs."""
    return _all_by_key(given.meta, _retained_of(given))


def _merge_rows(given: MergeInput) -> pa.RecordBatch:
    """Merges runs into one; deleted rows are dropped where no older row is left that they could hide."""
    merged = newest_rows(given.meta, _retained_of(given))
    return live_rows(merged) if given.is_oldest else merged


def _retained_of(given: MergeInput) -> list[pa.RecordBatch]:
    batches = []
    for run in given.runs:
        known = [given.furthest(run, entry) for entry in (REACHED, SHOWN)]
        batches.append(_retained(run.batch, max((each for each in known if each is not None), default=MIN_WATERMARK)))
    return batches


def _described_until(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    if RETAINED_UNTIL not in batch.schema.names:
        return meta
    return {**meta, RETAINED_UNTIL: int(batch.column(RETAINED_UNTIL).to_numpy().max())}


def _retained(batch: pa.RecordBatch, watermark: int) -> pa.RecordBatch:
    """The rows that have not expired at a watermark."""
    if RETAINED_UNTIL not in batch.schema.names:
        return batch
    is_retained = batch.column(RETAINED_UNTIL).to_numpy() > watermark
    return batch if is_retained.all() else batch.filter(pa.array(is_retained))


def _is_mostly_expired(run: Run, watermark: int) -> bool:
    """Return whether more than half of the time has passed from when a run was written to when all of it expires."""
    reached, until = int(run.meta[REACHED]), int(run.meta[RETAINED_UNTIL])
    return 2 * (watermark - reached) > until - reached


def _own_section(run: Run) -> Section:
    """The rows of a run that count: after a rescale two runs may have one table, each with some of its keys."""
    return run.section if run.whole else Section(run.batch)


def _sort_keys(rows: pa.RecordBatch) -> Longs:
    sort_keys: Longs = rows.column(_SORT_KEY).to_numpy()
    return sort_keys


def _taken(section: Section, rows: Longs) -> pa.RecordBatch:
    schema = section.schema
    return pa.RecordBatch.from_arrays([section.take(name, rows) for name in schema.names], schema=schema)


_MOST_ALIKE: Final = 3
"""The most batches that are searched one by one, which costs less than combining tables that change at every read."""

_SORT_KEY: Final = 2
"""The place of the sort key among the columns, behind hash and key."""


def _narrowed(source: Section, firsts: Longs, lasts: Longs, lows: Longs, highs: Longs) -> tuple[Longs, Longs]:
    """From where to where the rows have sort keys from ``lows`` to ``highs``, within ranges of rows of one key each."""
    sort_keys = source.column(source.schema.names[_SORT_KEY]).to_numpy()
    starts = _bisect(sort_keys, firsts, lasts, lows, np.less)
    return starts, _bisect(sort_keys, starts, lasts, highs, np.less_equal)


def _bisect(numbers: Longs, starts: Longs, stops: Longs, values: Longs, precede: np.ufunc) -> Longs:
    """The places, one in each of some sorted ranges, where the numbers begin that do not precede a value.

    All ranges are halved at once, without branches, until few are left that are longer than the others: to pick the
    open ones before each step costs more than to halve the closed ones along with them.
    """
    lows, sizes = starts.copy(), stops - starts
    while True:
        is_before = sizes > 0
        left = np.count_nonzero(is_before)
        if left < len(sizes) >> 2 or not left:
            break
        halves = sizes >> 1
        middles = lows + halves
        is_before &= precede(numbers.take(middles, mode="clip"), values)
        lows = np.where(is_before, middles + 1, lows)
        sizes = np.where(is_before, sizes - halves - 1, halves)
    if left:
        some = np.flatnonzero(is_before)
        lows[some] = _bisect(numbers, lows[some], lows[some] + sizes[some], values[some], precede)
    return lows


def _ranges_of_keys(source: Section, keys: KeyColumn) -> tuple[Longs, Longs]:
    """From where to where the rows of different keys are, which are by hash and key.

    A large table is in many sections, each with hashes of its own: no other keys are looked for there.
    """
    firsts, lasts = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    if source.rows:
        lowest, highest = (source.rows_of(HASH, row, row + 1).to_numpy() for row in (0, source.rows - 1))
        low, high = int(np.searchsorted(keys.hashes, lowest)[0]), int(np.searchsorted(keys.hashes, highest, "right")[0])
        firsts[low:high], lasts[low:high] = _ranges_of_own_keys(source, keys.slice(low, high))
    return firsts, lasts


def _ranges_of_own_keys(source: Section, keys: KeyColumn) -> tuple[Longs, Longs]:
    firsts, lasts = source.ranges_of_hashes(keys.hashes)
    found = np.flatnonzero(firsts < lasts)
    if pa.types.is_int64(keys.values.type) or not len(found):
        return firsts, lasts  # different integers have different hashes
    starts, ends = firsts[found], lasts[found]
    several = np.flatnonzero(ends - starts > 1)
    rows, owners = np.concatenate((starts, ends[several] - 1)), np.concatenate((found, found[several]))
    are_equal = np.asarray(pc.equal(source.take(KEY, rows), keys.values.take(pa.array(owners)))).astype(bool)
    is_key = are_equal[: len(found)]
    is_key[several] &= are_equal[len(found) :]
    for number in found[~is_key].tolist():  # another key has the same hash
        firsts[number], lasts[number] = _range_among_others(source, keys.values[number], firsts[number], lasts[number])
    return firsts, lasts


def _range_among_others(source: Section, key: pa.Scalar, first: int, last: int) -> tuple[int, int]:
    rows = np.flatnonzero(np.asarray(pc.equal(source.rows_of(KEY, first, last), key)).astype(bool))
    return (first + int(rows[0]), first + int(rows[-1]) + 1) if len(rows) else (first, first)
