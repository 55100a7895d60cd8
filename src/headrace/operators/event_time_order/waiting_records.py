"""Records that wait until event time has come to their timestamps, and lie in state between two epochs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.columns import array_to_values
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.typeinfo import Types
from headrace.operators.arrays import gather
from headrace.operators.base import KeyedBatch, concat_keyed, keys_of
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.keys import KeyColumn
from headrace.state.keys.codecs import NO_KEY
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.layout import HASH, KEY, TYPES
from headrace.state.runs.merge_input import all_rows
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.sorted_table import TimeSortedTable
from headrace.state.table_layout import TableLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec
    from headrace.state.protocols import KeyedStates, OperatorStates, StatesWithoutKeys
    from headrace.state.renamed_fields import RenamedFields
    from headrace.state.runs import RunStore

    Longs = npt.NDArray[np.int64]


STORE: Final = "in-event-time-order"
"""The state that records wait in; of an input that is not broadcast its number follows."""

_KIND: Final = "waiting-records"
_WAITING: Final = "records that wait for event time"
_TIME: Final = "time"
_RECORD: Final = "record"


@dataclass(frozen=True, slots=True)
class Due:
    """Records of one input that wait no longer, in the order in which they came.

    Attributes:
        timestamps: their timestamps.
        watermarks: the watermark that each has met; the lowest one for those of earlier epochs, which are not late.
        keys: their keys; None for those of an input without any.
        rows_at: makes Python objects of the records at some places.
    """

    timestamps: Longs
    watermarks: Longs
    keys: KeyColumn | None
    rows_at: Callable[[Longs], list[Any]]

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """The hashes of the keys; zeros where there are none."""
        return np.zeros(len(self), np.uint64) if self.keys is None else self.keys.hashes


class WaitingRecords(ABC):
    """The records of one input that wait."""

    def __init__(self) -> None:
        self._arrived: list[Batch] = []

    def begin_epoch(self) -> None:
        """Takes up what is stored."""
        self._arrived = []

    def add(self, batch: Batch) -> None:
        """Records wait, each until event time has come to its timestamp, or to the watermark that it has met."""
        self._arrived.append(batch)

    def take(self, up_to: int, check: Callable[[Batch], None]) -> list[Due]:
        """What waits no longer when event time has come to ``up_to``.

        Args:
            up_to: see above.
            check: refuses records that cannot be put in order; of many at once that costs less.
        """
        found = self._take_stored(up_to)
        if self._arrived:
            batch = concat_keyed(self._arrived)
            check(batch)
            is_due = np.maximum(batch.timestamps, batch.watermarks) <= up_to
            self._arrived = [] if is_due.all() else [batch.filter(~is_due)]
            due = batch if is_due.all() else batch.filter(is_due)
            found += [_due_of(due)] if len(due) else []
        return found

    def end_epoch(self) -> None:
        """Puts what waits still into state."""
        if self._arrived:
            self._store(concat_keyed(self._arrived))
        self._arrived = []

    @abstractmethod
    def _take_stored(self, up_to: int) -> list[Due]: ...

    @abstractmethod
    def _store(self, batch: Batch) -> None: ...


class WaitingInTable(WaitingRecords):
    """Those that no other subtask has: rows of an ordered table.

    Args:
        store: the runs of the table.
        type_: the type of the records.
        renamed: which of their fields have other names than in what is stored.
        codec: how their keys are stored; None for those of an input without any.
    """

    def __init__(
        self, store: RunStore, type_: TypeInformation, renamed: RenamedFields, codec: KeyCodec | None = None
    ) -> None:
        super().__init__()
        identity = {} if codec is None else {KEY: codec.arrow_type}
        about = {} if codec is None else {"keys": codec.to_json()}
        columns = {_TIME: pa.int64(), HASH: pa.uint64(), **identity, _RECORD: type_.storage_type}
        self._layout = TableLayout(
            _WAITING,
            _KIND,
            pa.schema(columns),
            len(columns) - 1,
            about,
            {"keys": "key type", TYPES: "type of records"},
            type_,
            column=_RECORD,
            renamed=renamed,
        )
        self._type = type_
        self._table = TimeSortedTable(store, self._layout, all_rows)

    def begin_epoch(self) -> None:
        super().begin_epoch()
        self._table.begin_epoch()

    def end_epoch(self) -> None:
        super().end_epoch()
        self._table.end_epoch()

    def _take_stored(self, up_to: int) -> list[Due]:
        batches = self._table.up_to(up_to)
        self._table.forget(up_to)
        return [self._stored(batch) for batch in batches]

    def _stored(self, batch: pa.RecordBatch) -> Due:
        times, hashes, *keys, records = batch.columns
        type_ = self._type
        return Due(
            times.to_numpy(),
            np.full(len(times), MIN_WATERMARK),
            KeyColumn(keys[0], hashes.to_numpy()) if keys else None,
            lambda indices: array_to_values(type_, gather(records, indices)),
        )

    def _store(self, batch: Batch) -> None:
        hashes, *keys = self._identity_of(batch)
        order = group_rows(batch.timestamps, hashes, *keys).order
        columns = [pa.array(batch.timestamps), pa.array(hashes), *keys, batch.as_array()]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._layout.schema)
        self._table.append(rows.take(pa.array(order)))

    @abstractmethod
    def _identity_of(self, batch: Batch) -> tuple[Any, ...]:
        """The hashes of the keys, and the keys where there are any."""


class KeyedWaiting(WaitingInTable):
    """Those of a keyed input, which go with their keys at another parallelism.

    Args:
        state: the state of the operator.
        type_: the type of the records.
        number: that of the input.
        renamed: which of their fields have other names than in what is stored.
    """

    def __init__(self, state: OperatorStates, type_: TypeInformation, number: int, renamed: RenamedFields) -> None:
        super().__init__(state.store(f"{STORE}-{number}"), type_, renamed, state.keyed.codec)

    def _identity_of(self, batch: Batch) -> tuple[Any, ...]:
        keys = keys_of(batch)
        return keys.hashes, keys.values


class WaitingOfSubtask(WaitingInTable):
    """Those of an input without keys: at another parallelism they are dealt out as the elements of a list are.

    Args:
        state: the state of the operator.
        type_: the type of the records.
        number: that of the input.
        renamed: which of their fields have other names than in what is stored.
    """

    def __init__(self, state: OperatorStates, type_: TypeInformation, number: int, renamed: RenamedFields) -> None:
        super().__init__(state.operator_state_store.list_log(f"{STORE}-{number}"), type_, renamed)

    def _identity_of(self, batch: Batch) -> tuple[Any, ...]:
        return (np.zeros(len(batch), np.uint64),)  # an ordered table has hashes: here all rows are as of one key


class WaitingOfAllSubtasks(WaitingRecords):
    """Those of an input that all subtasks get as a whole: a map by timestamp that all have alike.

    Args:
        states: the states without keys of the operator.
        type_: the type of the records.
        renamed: which of their fields have other names than in what is stored.
    """

    def __init__(self, states: StatesWithoutKeys, type_: TypeInformation, renamed: RenamedFields) -> None:
        super().__init__()
        descriptor = MapStateDescriptor(STORE, Types.LONG(), Types.LIST(Types.TUPLE([type_])))
        descriptor.keep_for_operator(f"the state of {_WAITING}", renamed.inside("f0"))
        self._map = states.broadcast_state(descriptor)

    def _take_stored(self, up_to: int) -> list[Due]:
        end = None if up_to == MAX_WATERMARK else up_to + 1
        found = list(self._map.items_between(None, end))
        if not found:
            return []
        for time, _ in found:
            self._map.remove(time)
        rows = [row for _, records in found for (row,) in records]
        times = np.repeat([time for time, _ in found], [len(records) for _, records in found])
        return [Due(times, np.full(len(times), MIN_WATERMARK), None, lambda indices: _rows_at(rows, indices))]

    def _store(self, batch: Batch) -> None:
        by_time: dict[int, list[Any]] = {}
        for row, time in zip(batch.rows, batch.timestamps.tolist(), strict=True):
            by_time.setdefault(time, []).append((row,))
        for time, rows in by_time.items():
            self._map.put(time, [*(self._map.get(time) or ()), *rows])


def _due_of(batch: Batch) -> Due:
    keys = batch.keys if isinstance(batch, KeyedBatch) else None
    return Due(batch.timestamps, batch.watermarks, keys, lambda indices: _rows_at(batch.rows, indices))


def _rows_at(rows: Sequence[Any], indices: Longs) -> list[Any]:
    return [rows[index] for index in indices.tolist()]


register_ordered_merger(_KIND, all_rows)


@dataclass(frozen=True, slots=True)
class OrderedRecords:
    """Records of several inputs in one order, as they are handed to functions.

    Attributes:
        inputs: the input of each.
        rows: the records.
        timestamps: their timestamps.
        watermarks: the event time that each of them meets.
        entries: their keys; ``NO_KEY`` for those of an input without any.
    """

    inputs: list[int]
    rows: list[Any]
    timestamps: list[int]
    watermarks: list[int]
    entries: list[Any]

    @staticmethod
    def of_nothing(watermarks: list[int]) -> OrderedRecords:
        """Places for as many records as there are watermarks."""
        size = len(watermarks)
        return OrderedRecords([0] * size, [None] * size, [0] * size, watermarks, [NO_KEY] * size)

    def put(self, places: Sequence[int], number: int, part: Due, indices: Longs, keyed: KeyedStates | None) -> None:
        """Puts some records of an input into their places; ``keyed`` knows the keys of those that have any."""
        if not places:
            return
        timestamps = part.timestamps[indices].tolist()
        for place, row, timestamp in zip(places, part.rows_at(indices), timestamps, strict=True):
            self.inputs[place], self.rows[place], self.timestamps[place] = number, row, timestamp
        if part.keys is not None and keyed is not None:
            for place, entry in zip(places, keyed.bind(part.keys.take(indices)), strict=True):
                self.entries[place] = entry
