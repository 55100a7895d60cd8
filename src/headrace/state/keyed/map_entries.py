"""The entries of a map state, from Python objects to columns and back: many at once, or one that is searched for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.columns import array_to_values, values_to_array
from headrace.state.keyed.map_cell import apply
from headrace.state.keyed.table import Elements
from headrace.state.keys import KeyCodec
from headrace.state.keys.nan import nan_replacer
from headrace.state.runs.expiry import expires
from headrace.state.runs.layout import ACTION, ENTRY, ENTRY_HASH, ENTRY_KEY, EXPIRY, PLACE, PUT, VALUE
from headrace.state.runs.list_columns import hash_column, rows_as_they_happened
from headrace.state.runs.sections import ELEMENTS, FEW

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from headrace.state.descriptors import MapStateDescriptor
    from headrace.state.runs import Run

    Indices = npt.NDArray[np.int64]

MIN_INT64: Final = -(1 << 63)
MAX_INT64: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class EntryRange:
    """What one run says about the entries of one key.

    Attributes:
        run: the run.
        start: where the entries begin among the elements of its lists.
        stop: where they end.
    """

    run: Run
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Happened:
    """What happened to entries, in this order.

    Attributes:
        keys: the keys of the entries.
        actions: what happened to each.
        elements: what it was set to; None for one that was removed.
    """

    keys: list[Any]
    actions: npt.NDArray[np.int8]
    elements: list[Any]

    def repeat(self, maps: list[dict[Any, Any]], lengths: Indices) -> None:
        """Repeats it on maps: on each of them the next so many."""
        ends = np.cumsum(lengths)
        places = zip(maps, (ends - lengths).tolist(), ends.tolist(), strict=True)
        keys, elements = self.keys, self.elements
        if (self.actions == PUT).all():
            for entries, start, stop in places:
                entries.update(zip(keys[start:stop], elements[start:stop], strict=True))
            return
        actions = self.actions.tolist()
        for entries, start, stop in places:
            for index in range(start, stop):
                apply(entries, keys[index], actions[index], elements[index])


class MapEntries:
    """How the entries of one map state are stored; elements are as :class:`Elements` says."""

    def __init__(self, descriptor: MapStateDescriptor, *, expires: bool) -> None:
        self._key_type = descriptor.key_type
        self._codec = KeyCodec.for_type(descriptor.key_type)
        self._same_nan = nan_replacer(descriptor.key_type)
        self._elements = Elements(descriptor.value_type, expires)

    def to_columns(self, happened: Happened) -> dict[str, pa.Array]:
        """The columns of entries."""
        encoded = self._codec.encode(happened.keys)
        columns = {ENTRY_KEY: encoded.values, **hash_column(encoded.values, encoded.hashes)}
        if not self._codec.is_plain:
            columns[ENTRY] = values_to_array(self._key_type, happened.keys)
        columns[ACTION] = pa.array(happened.actions)
        return {**columns, **self._elements.to_columns(happened.elements)}

    def read(self, run: Run, starts: Indices, stops: Indices) -> Happened:
        """What a run says about ranges of entries, one range after the other."""
        section = run.section
        places = section.ranges_of(PLACE + ELEMENTS, starts, stops)
        rows = pa.array(rows_as_they_happened(starts, stops - starts, places))

        def column(name: str) -> pa.Array:
            return section.ranges_of(name + ELEMENTS, starts, stops).take(rows)

        return self._happened(run, column)

    def read_between(self, place: EntryRange, low: int, high: int) -> Happened:
        """What a run says about the entries with keys from ``low`` up to ``high``, in ascending order of these.

        The keys are integers, and ``low`` is one that fits 64 bits; ``high`` may exceed them.
        """
        section, name = place.run.section, ENTRY_KEY + ELEMENTS
        start, stop = place.start, place.stop
        if low > MIN_INT64:
            start = section.lower_bound(name, np.int64(low), start, stop)
        if high <= MAX_INT64:
            stop = section.lower_bound(name, np.int64(high), start, stop)
        return self._happened(place.run, lambda column: section.rows_of(column + ELEMENTS, start, stop))

    def _happened(self, run: Run, column: Callable[[str], pa.Array]) -> Happened:
        """What a run says about some entries; ``column`` gives of each column what it holds for these."""
        has_expiries = self._elements.expires and expires(run)
        elements = self._elements.from_columns(column(VALUE), column(EXPIRY) if has_expiries else None)
        return Happened(self._keys(column(self._key_column)), column(ACTION).to_numpy(), elements)

    def some_keys(self, place: EntryRange) -> list[Any]:
        """The keys of the first few of some entries; there may be others, in newer runs, that say something of them."""
        stop = min(place.start + FEW, place.stop)
        return self._keys(place.run.section.rows_of(self._key_column + ELEMENTS, place.start, stop))

    @property
    def _key_column(self) -> str:
        return ENTRY_KEY if self._codec.is_plain else ENTRY

    def _keys(self, column: pa.Array) -> list[Any]:
        if self._codec.is_plain:
            return self._codec.decode(column)
        keys = array_to_values(self._key_type, column)
        return keys if self._same_nan is None else list(map(self._same_nan, keys))

    def probe(self, key: Any) -> Probe:
        """What an entry is searched for by; its key is as it comes back from storage."""
        encoded = self._codec.encode([key])
        if pa.types.is_int64(encoded.values.type):
            return Probe(ENTRY_KEY + ELEMENTS, encoded.values.to_numpy()[0], None)
        return Probe(ENTRY_HASH + ELEMENTS, encoded.hashes[0], encoded.values[0].as_py())

    def action(self, run: Run, row: int) -> int:
        """What happened to an entry that was found."""
        action: int = run.section.rows_of(ACTION + ELEMENTS, row, row + 1)[0].as_py()
        return action

    def element(self, run: Run, row: int) -> Any:
        """The element of an entry that was found."""
        expiries = None
        if self._elements.expires and expires(run):
            expiries = run.section.rows_of(EXPIRY + ELEMENTS, row, row + 1)
        return self._elements.from_columns(run.section.rows_of(VALUE + ELEMENTS, row, row + 1), expiries)[0]


@dataclass(frozen=True, slots=True)
class Probe:
    """The key of one entry, as runs are searched for it.

    Attributes:
        column: the column that ranges of entries are sorted by.
        value: what it holds for the entry.
        raw: the key in canonical form, where others may have the same ``value``; else None.
    """

    column: str
    value: np.integer[Any]
    raw: str | bytes | None

    def find(self, place: EntryRange) -> int | None:
        """The row of the entry; None when the run does not say anything about it."""
        section, stop = place.run.section, place.stop
        row = section.lower_bound(self.column, self.value, place.start, stop)
        while row < stop and section.rows_of(self.column, row, row + 1).to_numpy()[0] == self.value:
            if self.raw is None or section.rows_of(ENTRY_KEY + ELEMENTS, row, row + 1)[0].as_py() == self.raw:
                return row
            row += 1
        return None
