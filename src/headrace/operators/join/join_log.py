"""``JoinLog``: what a join keeps of one input, as runs that are sorted by hash, key and time.

Rows that are equal in these stay in the order in which they came. A row is kept for a fixed span after its time, and
over as soon as the watermark has reached the end of that. One that came when the watermark stood there already is kept
until the watermark goes on (it *lingers*), as in Flink, where a timer that is set for the present waits for the next
advance. So a row says by itself whether it is over, and nothing has to be written when it is: rows that are over are
passed over, go when runs are merged, and a run goes when all its rows are over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.constants import MIN_WATERMARK
from headrace.state.keys.entries import order_by_hash
from headrace.state.renamed_fields import NOTHING_RENAMED
from headrace.state.runs.grouping import sorted_by
from headrace.state.runs.layout import HASH, KEY, REACHED, SHOWN, TYPES
from headrace.state.runs.merge_input import concat, same_values
from headrace.state.runs.merging import can_be_rewritten, merge_runs, merge_small_runs, register_merger
from headrace.state.runs.sections import Section
from headrace.state.runs.spilling import is_large, spilled
from headrace.state.table_layout import TableLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec, KeyColumn
    from headrace.state.renamed_fields import RenamedFields
    from headrace.state.runs import Run, RunStore
    from headrace.state.runs.merge_input import MergeInput

    Longs = npt.NDArray[np.int64]
    Hashes = npt.NDArray[np.uint64]
    Mask = npt.NDArray[np.bool_]


TIME: Final = "time"
"""The timestamp of a record."""
LINGERS: Final = "lingers"
"""Whether it is kept for one watermark longer than by its time."""
MET: Final = "met"
"""Whether the watermark stood at its time already when it came; only where records without a partner are shown."""
RECORD: Final = "record"
"""The record, as one column."""

_KIND: Final = "join-log"
_KEPT: Final = "kept"
_OVER: Final = "over"
_WORDS: Final = {
    "keys": "key type",
    TYPES: "type of records",
    _KEPT: "interval, for which a record is kept so long (in milliseconds)",
}


def log_layout(
    codec: KeyCodec, record: TypeInformation, kept: int, renamed: RenamedFields = NOTHING_RENAMED, *, is_outer: bool
) -> TableLayout:
    """What the log of an input holds.

    Args:
        codec: how keys are stored.
        record: the type of the records.
        kept: for how long after its time a record is kept, in milliseconds.
        renamed: which fields of the records have other names than in what is stored.
        is_outer: whether records without a partner are shown.
    """
    met = {MET: pa.bool_()} if is_outer else {}
    columns = {HASH: pa.uint64(), KEY: codec.arrow_type, TIME: pa.int64(), LINGERS: pa.bool_(), **met}
    schema = pa.schema({**columns, RECORD: record.storage_type})
    about = {"keys": codec.to_json(), _KEPT: kept}
    return TableLayout("the records of a join", _KIND, schema, 3, about, _WORDS, record, column=RECORD, renamed=renamed)


class JoinLog:
    """The records of one input that may still be matched, in one task.

    Args:
        runs: the state.
        layout: what it holds.
        kept: for how long after its time a record is kept, in milliseconds.

    Raises:
        StateMigrationError: when something else is stored.
    """

    def __init__(self, runs: RunStore, layout: TableLayout, kept: int) -> None:
        layout.take_over(runs)
        self._runs, self._meta, self._kept = runs, layout.meta, kept
        self._written: list[Section] = []

    def begin_epoch(self, watermark: int) -> None:
        """Takes up what the last epoch left.

        At another parallelism a task begins with the lowest watermark of those before it. What one that was ahead has
        shown without a partner is left out then: it would be there again, and be matched.
        """
        self._written = []
        for run in self._runs.runs:
            if run.meta.get(SHOWN, watermark) > watermark:
                self._leave_out_what_was_shown(run, watermark)

    def _leave_out_what_was_shown(self, run: Run, watermark: int) -> None:
        left = _not_over(run.batch, self._kept, run.meta[SHOWN])
        if left.num_rows:
            self._runs.rewrite(run, left, _described({**run.meta, SHOWN: watermark}, left))
        else:
            self._runs.drop(run)

    def sections(self, watermark: int) -> list[Section]:
        """What may hold rows that are not over when the watermark is ``watermark``, oldest first."""
        stored = [_own_section(run) for run in self._runs.runs if run.meta[_OVER] > watermark]
        return [*(section for section in stored if section.rows), *self._written]

    def append(self, batch: pa.RecordBatch, watermark: int) -> None:
        """Adds rows, in order and newer than all others; those that are over at ``watermark`` are left out."""
        batch = _not_over(batch, self._kept, watermark)
        if not batch.num_rows:
            return
        # Sections double in size from the newest to the oldest, so a row is merged a logarithmic number of times.
        while self._written and self._written[-1].rows <= 2 * batch.num_rows and not is_large(self._written[-1].batch):
            batch = _merged([self._written.pop().batch, batch], self._kept, watermark)
        self._written.append(Section(spilled(batch) if is_large(batch) else batch))

    def end_epoch(self, watermark: int, *, has_shown: bool = False) -> bool:
        """Puts what was added into state, and drops runs of which all rows are over.

        Args:
            watermark: where event time is.
            has_shown: whether rows that are over were shown without a partner in this epoch.

        Returns:
            Whether all runs were written anew.
        """
        self._bring_to(watermark)
        added = 0
        if self._written:
            batch = _merged([section.batch for section in self._written], self._kept, watermark)
            added = batch.num_rows
            if added:
                self._runs.append(batch, _described({**self._meta, REACHED: watermark}, batch))
            self._written = []
        self._note_shown(watermark if has_shown else None)
        merge_small_runs(self._runs, now=0)
        return self._leave_out_what_is_over(watermark, added)

    def _note_shown(self, watermark: int | None) -> None:
        """Has all runs say how far rows have been shown, new ones too: of those that are merged the newest counts."""
        known = [watermark, *(run.meta.get(SHOWN) for run in self._runs.runs)]
        shown = max((each for each in known if each is not None), default=None)
        for run in self._runs.runs if shown is not None else ():
            if run.meta.get(SHOWN) != shown:
                self._runs.annotate(run, **{SHOWN: shown})

    def _bring_to(self, watermark: int) -> None:
        """Drops runs that are over as a whole; what is left knows of no watermark that the task has not reached.

        At another parallelism a task begins with the lowest watermark of those before it. One that was ahead has left
        runs of its own keys, by which merging must not take the rows of others to be over.
        """
        for run in self._runs.runs:
            if run.meta[_OVER] <= watermark:
                self._runs.drop(run)
            elif run.meta[REACHED] > watermark:
                self._runs.annotate(run, **{REACHED: watermark})

    def _leave_out_what_is_over(self, watermark: int, added: int) -> bool:
        """Writes all runs anew when most rows of the oldest one are over, unless they are too large for an epoch."""
        runs = self._runs.runs
        size = sum(run.section.nbytes for run in runs)
        is_due = bool(runs) and _is_mostly_over(runs[0], watermark) and can_be_rewritten(self._runs.rows, size, added)
        if is_due:
            for run in runs:  # an epoch without records has no run that says so
                self._runs.annotate(run, **{REACHED: watermark})
            runs = self._runs.runs
            self._runs.replace(runs, *merge_runs(runs, is_oldest=True, now=0))
        return is_due


def _own_section(run: Run) -> Section:
    """The rows of a run that count: after a rescale two runs may have one table, each with some of its keys."""
    if run.whole:
        return run.section
    own = run.own_rows()
    assert isinstance(own, slice), "runs are sorted by hash"
    return Section(run.section.slice(own.start, own.stop))


def key_time_order(hashes: Hashes, keys: pa.Array, times: Longs) -> tuple[Longs, Longs]:
    """The stable order of rows by hash, key and time; and, in that order, which key each is of, counted from 0."""
    order, ordered = order_by_hash(hashes)
    changes = ordered[1:] != ordered[:-1]
    if not pa.types.is_int64(keys.type):  # different integers have different hashes
        repeated = np.flatnonzero(~changes)
        if not same_values(keys, order[repeated], order[repeated + 1]).all():
            order = _exact_order(hashes, keys)
            changes = ~same_values(keys, order[1:], order[:-1])
    numbers = np.concatenate((np.zeros(min(1, len(order)), np.int64), np.cumsum(changes)))
    in_order = times[order]
    if ((in_order[1:] < in_order[:-1]) & ~changes).any():
        order = order[sorted_by(numbers, in_order)]
    return order, numbers


def _exact_order(hashes: Hashes, keys: pa.Array) -> Longs:
    table = pa.table({HASH: hashes, KEY: keys, "sequence": np.arange(len(hashes))})
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    return np.asarray(order).astype(np.int64)


def _merged(batches: Sequence[pa.RecordBatch], kept: int, watermark: int) -> pa.RecordBatch:
    """The rows of several batches, oldest first, that are not over; in order."""
    whole = concat([_not_over(batch, kept, watermark) for batch in batches])
    if len(batches) == 1:
        return whole
    order, _ = key_time_order(whole.column(HASH).to_numpy(), whole.column(KEY), whole.column(TIME).to_numpy())
    return whole.take(pa.array(order))


def _not_over(batch: pa.RecordBatch, kept: int, watermark: int) -> pa.RecordBatch:
    is_kept = _over_at(batch, kept) > watermark
    return batch if is_kept.all() else batch.filter(pa.array(is_kept))


def _over_at(batch: pa.RecordBatch, kept: int) -> Longs:
    """The watermark at which each row is over."""
    lingers = np.asarray(batch.column(LINGERS).to_numpy(zero_copy_only=False), np.int64)
    over: Longs = batch.column(TIME).to_numpy() + kept + lingers
    return over


def _is_mostly_over(run: Run, watermark: int) -> bool:
    """Whether time has come more than half of the way from when a run was written to when all of it is over."""
    reached, over = int(run.meta[REACHED]), int(run.meta[_OVER])
    return 2 * (watermark - reached) > over - reached


def _described(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    return {**meta, _OVER: int(_over_at(batch, meta[_KEPT]).max())}


def _merge(given: MergeInput) -> pa.RecordBatch:
    """What no run of the same task knows to be over, or to have been shown; as pure a function of the runs as any."""
    kept, batches = given.meta[_KEPT], []
    for run in given.runs:
        known = [given.furthest(run, entry) for entry in (REACHED, SHOWN)]
        batches.append(_not_over(run.batch, kept, max(each for each in known if each is not None)))
    return _merged(batches, kept, MIN_WATERMARK)


register_merger(_KIND, _merge, _described)


_LAST_HASH: Final = np.uint64(2**64 - 1)


def key_ranges(
    source: Section, keys: KeyColumn, of_keys: Longs, lows: Longs, highs: Longs
) -> tuple[Longs, Longs, Longs]:
    """Which probes find rows of their key from ``lows`` to ``highs``, and from where to where."""
    firsts, lasts = _ranges_of_keys(source, keys)
    found = np.flatnonzero((firsts < lasts)[of_keys])
    if not len(found):
        return found, found, found
    times = source.column(TIME).to_numpy()
    ends = lasts[of_keys[found]]
    starts = _bisect(times, firsts[of_keys[found]], ends, lows[found], np.less)
    stops = _bisect(times, starts, ends, highs[found], np.less_equal)
    is_any = starts < stops
    return found[is_any], starts[is_any], stops[is_any]


def _bisect(times: Longs, starts: Longs, stops: Longs, values: Longs, precede: np.ufunc) -> Longs:
    """In each of some sorted ranges of times, where those begin that do not precede a value."""
    lows, highs = starts.copy(), stops.copy()
    searched = np.flatnonzero(lows < highs)
    while len(searched):
        middles = (lows[searched] + highs[searched]) >> 1
        is_before = precede(times[middles], values[searched])
        lows[searched[is_before]] = middles[is_before] + 1
        highs[searched[~is_before]] = middles[~is_before]
        searched = searched[lows[searched] < highs[searched]]
    return lows


def _ranges_of_keys(source: Section, keys: KeyColumn) -> tuple[Longs, Longs]:
    """From where to where the rows of different keys are, which are by hash and key.

    A large log is in many sections, each with hashes of its own: no other keys are looked for there.
    """
    firsts, lasts = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    if source.rows:
        lowest, highest = (source.rows_of(HASH, row, row + 1).to_numpy() for row in (0, source.rows - 1))
        low, high = int(np.searchsorted(keys.hashes, lowest)[0]), int(np.searchsorted(keys.hashes, highest, "right")[0])
        firsts[low:high], lasts[low:high] = _ranges_of_own_keys(source, keys.slice(low, high))
    return firsts, lasts


def _ranges_of_own_keys(source: Section, keys: KeyColumn) -> tuple[Longs, Longs]:
    hashes = keys.hashes
    firsts = source.lower_bounds(HASH, hashes)
    lasts = source.lower_bounds(HASH, hashes + np.uint64(1))
    lasts[hashes == _LAST_HASH] = source.rows
    if pa.types.is_int64(keys.values.type):
        return firsts, lasts  # different integers have different hashes
    found = np.flatnonzero(firsts < lasts)
    wanted = keys.values.take(pa.array(found))
    is_key = np.ones(len(found), np.bool_)
    for rows in (firsts[found], lasts[found] - 1):
        is_key &= np.asarray(pc.equal(source.take(KEY, rows), wanted)).astype(bool)
    for number in found[~is_key].tolist():  # another key has the same hash
        firsts[number], lasts[number] = _range_among_others(source, keys.values[number], firsts[number], lasts[number])
    return firsts, lasts


def _range_among_others(source: Section, key: pa.Scalar, first: int, last: int) -> tuple[int, int]:
    rows = np.flatnonzero(np.asarray(pc.equal(source.rows_of(KEY, first, last), key)).astype(bool))
    return (first + int(rows[0]), first + int(rows[-1]) + 1) if len(rows) else (first, first)
