"""``UnmatchedLog``: which records of one input have not been matched yet, in the order in which they are over.

Not the records themselves are in it but **groups** of them: those with the same key and time, apart by whether they
came when the watermark stood at that time already. All records of a group have been matched, or none has: what one of
them matches is still kept when the next one comes. A group is written when it is first found unmatched, and written
once more, as not ``live``, when it is matched; the records are looked up in the log of the join when it is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.operators.join.join_log import LINGERS, MET, TIME, key_ranges, key_time_order
from headrace.state.keys import KeyColumn
from headrace.state.ordered_table import OrderedTable
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.list_columns import rows_of_ranges
from headrace.state.runs.merge_input import concat
from headrace.state.runs.merging import INLINE_ROWS, merge_runs, register_ordered_merger
from headrace.state.runs.ordered import LIVE, NO_TIME, newest
from headrace.state.table_layout import TableLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.state.keys import KeyCodec
    from headrace.state.runs import RunStore
    from headrace.state.runs.sections import Section

    Longs = npt.NDArray[np.int64]

_KIND: Final = "join-alone"
_OVER: Final = "over"
_ORDER: Final = [_OVER, HASH, KEY, MET]


@dataclass(frozen=True)
class OverRows:
    """Rows that are over.

    Attributes:
        ends: the watermark at which each is.
        numbers: the section that each is in.
        rows: its row there.
    """

    ends: Longs
    numbers: Longs
    rows: Longs

    @staticmethod
    def concat(parts: Sequence[OverRows]) -> OverRows:
        """The rows of all parts."""
        arrays = ([getattr(part, name) for part in parts] for name in ("ends", "numbers", "rows"))
        return OverRows(*(np.concatenate([np.empty(0, np.int64), *each]) for each in arrays))


class UnmatchedLog:
    """The groups of one input in one task.

    Args:
        store: the state.
        codec: how keys are stored.
        kept: for how long after its time a record is kept, in milliseconds.

    Raises:
        StateMigrationError: when keys of another type are stored.
    """

    def __init__(self, store: RunStore, codec: KeyCodec, kept: int) -> None:
        types = [pa.int64(), pa.uint64(), codec.arrow_type, pa.int64(), pa.bool_()]
        schema = pa.schema(list(zip([*_ORDER, LIVE], types, strict=True)))
        about = {"keys": codec.to_json()}
        self._layout = TableLayout(
            "the unmatched records of a join", _KIND, schema, len(_ORDER), about, {"keys": "key type"}
        )
        self._store = store
        self._table = OrderedTable(store, self._layout, newest, INLINE_ROWS, spills=True)
        self._kept = kept

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()

    def end_epoch(self, *, anew: bool) -> None:
        """Puts what was added into state.

        Args:
            anew: whether the log of the join was written anew. Then this one is, too: what is left of its runs would
                keep files of which nothing else is needed any more.
        """
        self._table.end_epoch()
        runs = self._store.runs
        if anew and runs:
            self._store.replace(runs, *merge_runs(runs, is_oldest=True, now=0))

    @property
    def first_over(self) -> int:
        """At which watermark the first group is over, be it matched or not; above all watermarks if there is none."""
        return self._table.first

    def over(self, sections: Sequence[Section], watermark: int) -> OverRows:
        """The rows of all groups that are over at a watermark, among those of some sections."""
        batches = self._table.up_to(watermark)
        if not batches:
            return OverRows.concat([])
        groups = newest(self._layout.meta, batches)
        groups = groups.filter(groups.column(LIVE))
        ends, met = groups.column(_OVER).to_numpy(), groups.column(MET).to_numpy()
        times = ends - self._kept - (met if self._kept == 0 else 0)
        hashes, values = groups.column(HASH).to_numpy(), groups.column(KEY)
        order, of_keys = key_time_order(hashes, values, times)
        keys = KeyColumn(values, hashes).take(order[np.flatnonzero(np.diff(of_keys, prepend=-1))])
        wanted = _Wanted(keys, of_keys, times[order], met[order], ends[order])
        return OverRows.concat([wanted.found_in(section, number) for number, section in enumerate(sections)])

    def add(self, section: Section, rows: Longs, watermark: int) -> None:
        """Rows of a section have not been matched so far; those that are over at a watermark do not count."""
        self._table.append(self._groups(section, rows, watermark, live=True))

    def remove(self, section: Section, rows: Longs, watermark: int) -> None:
        """Rows of a section have been matched, some perhaps before; those that are over at a watermark do not count."""
        if not len(rows) or self._table.first == NO_TIME:
            return
        groups = self._groups(section, rows, watermark, live=False)
        if not groups.num_rows:
            return
        over, hashes = groups.column(_OVER).to_numpy(), groups.column(HASH).to_numpy()
        is_other = np.append(True, (over[1:] != over[:-1]) | (hashes[1:] != hashes[:-1]))
        found = self._table.find(over[is_other], hashes[is_other])
        if found:
            known = newest(self._layout.meta, found)
            self._table.append(_in_both(known.filter(known.column(LIVE)), groups))

    def forget(self, watermark: int) -> None:
        """Drops the groups that are over at a watermark."""
        self._table.forget(watermark)

    def _groups(self, section: Section, rows: Longs, watermark: int, *, live: bool) -> pa.RecordBatch:
        """The groups of some rows, in order, of those that are not over at a watermark."""
        over = _over(section, rows, self._kept)
        is_kept = over > watermark
        over, rows = over[is_kept], rows[is_kept]
        keys = [section.take(name, rows) for name in (HASH, KEY)]
        columns = [pa.array(over), *keys, pa.array(_flags(section, MET, rows)), pa.array(np.full(len(rows), live))]
        groups = pa.RecordBatch.from_arrays(columns, schema=self._layout.schema)
        return newest(self._layout.meta, [groups]) if groups.num_rows else groups


@dataclass(frozen=True)
class _Wanted:
    """Groups whose rows are looked for, by hash, key and time.

    Attributes:
        keys: the different keys.
        of_keys: which of them each group has.
        times: the time of each.
        met: whether the watermark stood there when its records came.
        ends: when it is over.
    """

    keys: KeyColumn
    of_keys: Longs
    times: Longs
    met: Longs
    ends: Longs

    def found_in(self, section: Section, number: int) -> OverRows:
        """Their rows in a section, which has a number."""
        found, starts, stops = key_ranges(section, self.keys, self.of_keys, self.times, self.times)
        lengths = stops - starts
        rows = rows_of_ranges(starts, lengths)
        groups = np.repeat(found, lengths)
        is_own = _flags(section, MET, rows) == self.met[groups]
        rows = rows[is_own]
        return OverRows(self.ends[groups[is_own]], np.full(len(rows), number), rows)


def over_in_order(parts: Sequence[OverRows]) -> tuple[OverRows, Longs]:
    """The rows of several inputs in the order in which they are over, and of which input each is."""
    whole = OverRows.concat(parts)
    order = np.argsort(whole.ends, kind="stable")
    sides = np.repeat(np.arange(len(parts)), [len(part.rows) for part in parts])
    return OverRows(whole.ends[order], whole.numbers[order], whole.rows[order]), sides[order]


def arrived_over(section: Section, number: int, kept: int, watermark: int) -> OverRows:
    """The rows of a section that are over at a watermark."""
    over = _over(section, np.arange(section.rows), kept)
    rows = np.flatnonzero(over <= watermark)
    return OverRows(over[rows], np.full(len(rows), number), rows)


def _over(section: Section, rows: Longs, kept: int) -> Longs:
    """The watermark at which each row is over."""
    over: Longs = section.take(TIME, rows).to_numpy() + kept + _flags(section, LINGERS, rows)
    return over


def _flags(section: Section, name: str, rows: Longs) -> Longs:
    return np.asarray(section.take(name, rows).to_numpy(zero_copy_only=False), np.int64)


def _in_both(known: pa.RecordBatch, groups: pa.RecordBatch) -> pa.RecordBatch:
    """Those of some groups that are known; of both each is there once."""
    whole = concat([known, groups])
    over, hashes = whole.column(_OVER).to_numpy(), whole.column(HASH).to_numpy()
    found = group_rows(over, hashes, whole.column(KEY), whole.column(MET))
    is_both = found.segments.counts == 2
    return whole.take(pa.array(found.order[found.segments.starts[is_both] + 1]))


register_ordered_merger(_KIND, newest)
