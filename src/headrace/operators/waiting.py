"""Records that wait: for others, since as many at once cost less; or until event time has come to their timestamps.

:class:`WaitingBatches` holds records of one or two inputs in memory. Their owner takes them when they are many,
and whenever event time goes on at the end of a stretch of input, so that none waits when an epoch ends. What operators
do with nothing else to say of that is :class:`BufferingOperator`.

:class:`WaitingForEventTime` holds records of one input over epochs. What waits when one ends goes into state: as rows
of a sorted table, or as entries of a broadcast map.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, islice
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.typeinfo import TypeInformation, Types
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, UserCode, concat_keyed, keys_of
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.evolution import RenamedFields
from headrace.state.keys import KeyColumn
from headrace.state.keys.codecs import NO_KEY
from headrace.state.protocols import KeyedStates, OperatorStates, StatesWithoutKeys
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.layout import HASH, KEY, TYPES
from headrace.state.runs.merge_input import all_rows
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.sorted_table import TableLayout, TimeSortedTable

Longs = npt.NDArray[np.int64]


_Of = TypeVar("_Of")
_AnyBatch = TypeVar("_AnyBatch", bound=Batch)

MOST_CALLED: Final = 1 << 12
"""The most records that wait for a function that is called for each of them."""

_MOST_BYTES: Final = 128 << 20
"""Records that take so much memory are many, however few they are."""

_WEIGHED_ROWS: Final = 64
"""After so many records a batch is weighed for all of them: of a few records that takes longer than all else."""


class TakenBatches(Generic[_AnyBatch]):
    """Records of both inputs in the order in which they came.

    Args:
        batches: the input and the records of each batch.
    """

    def __init__(self, batches: Sequence[tuple[int, _AnyBatch]]) -> None:
        self.batches = [batch for _, batch in batches]
        self._indices = [index for index, _ in batches]

    @cached_property
    def sides(self) -> Longs:
        """The input of each record."""
        return np.repeat(np.array(self._indices, np.int64), [len(batch) for batch in self.batches])

    def in_turn(self, of_inputs: Mapping[int, Iterator[_Of]]) -> Iterator[_Of]:
        """A value for each record, picked from the values of its input, in the order in which the records came."""
        turns = zip(self._indices, self.batches, strict=True)
        return chain.from_iterable(islice(of_inputs[index], len(batch)) for index, batch in turns)

    @property
    def timestamps(self) -> Longs:
        """The timestamp of each record."""
        return np.concatenate([batch.timestamps for batch in self.batches])

    @property
    def watermarks(self) -> Longs:
        """The watermark that each record meets."""
        return np.concatenate([np.empty(0, np.int64), *(batch.watermarks for batch in self.batches)])

    def in_stretches(self) -> Iterator[tuple[int, _AnyBatch]]:
        """The input and the records of each stretch of records of one input, in the order in which they came."""
        batches = iter(self.batches)
        for index, stretch in groupby(self._indices):
            yield index, concat_keyed(list(islice(batches, sum(1 for _ in stretch))))

    def of(self, side: int) -> _AnyBatch | None:
        """The records of one input; None if there are none."""
        own = [batch for index, batch in zip(self._indices, self.batches, strict=True) if index == side]
        return concat_keyed(own) if own else None


class WaitingBatches(Generic[_AnyBatch]):
    """The records of one subtask that wait.

    Args:
        most_rows: so many records are many.
        are_stored: whether all are put into state, so that Python objects can be weighed as what they are there.
    """

    def __init__(self, most_rows: int, *, are_stored: bool = False) -> None:
        self._most_rows = most_rows
        self._are_stored = are_stored
        self.forget()

    def forget(self) -> None:
        """Forget all records that wait."""
        self._batches: list[tuple[int, _AnyBatch]] = []
        self._rows = self._bytes = self._unweighed = 0

    def add(self, input_index: int, batch: _AnyBatch) -> bool:
        """Has records of one input wait; tells whether there are many now."""
        self._batches.append((input_index, batch))
        self._rows += len(batch)
        self._unweighed += len(batch)
        if self._unweighed >= _WEIGHED_ROWS and (batch.is_columnar or self._are_stored):
            some = batch if batch.is_columnar else batch.slice(0, 1)
            self._bytes += some.as_array().nbytes * self._unweighed // len(some)
            self._unweighed = 0
        return self._rows >= self._most_rows or self._bytes >= _MOST_BYTES

    def take(self) -> TakenBatches[_AnyBatch]:
        """All that wait, which do so no longer."""
        taken = TakenBatches(self._batches)
        self.forget()
        return taken


class BufferingOperator(KeyedOperator):
    """Buffers the records of its inputs until there are many or event time advances, and handles them together.

    Results are those of one record after the other; many at once cost less. None waits when an epoch ends.

    Args:
        most_rows: so many records are many.
        user_code: the functions of the user that it calls.
    """

    def __init__(self, most_rows: int, user_code: Sequence[UserCode] = ()) -> None:
        super().__init__()
        self.user_code = user_code
        self._waiting: WaitingBatches[Any] = WaitingBatches(most_rows, are_stored=True)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._waiting.forget()

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        self.buffer(input_index, batch)

    def buffer(self, input_index: int, batch: Batch) -> None:
        """Buffer records of one input, and handle all that wait if there are many now."""
        if self._waiting.add(input_index, batch):
            self.handle_waiting()

    def advance_watermark(self, watermark: int) -> None:
        self.handle_waiting()
        super().advance_watermark(watermark)

    def handle_waiting(self) -> None:
        """Handle what waits, if anything does."""
        taken = self._waiting.take()
        if taken.batches:
            self.handle_taken(taken)

    @abstractmethod
    def handle_taken(self, taken: TakenBatches[Any]) -> None:
        """Handle records that have waited, of which there is at least one."""


STORE: Final = "in-event-time-order"
"""The state that records wait in; of an input that is not broadcast its number follows."""

_KIND: Final = "waiting-records"
_WAITING: Final = "records that wait for event time"
_TIME: Final = "time"
_RECORD: Final = "record"


class WaitingForEventTime(ABC):
    """The records of one input that wait until event time has come to their timestamps."""

    def __init__(self) -> None:
        self._arrived: list[Batch] = []

    def begin_epoch(self) -> None:
        """Takes up what is stored."""
        self._arrived = []

    def add(self, batch: Batch) -> None:
        """Records wait, each until event time has come to its timestamp, or to the watermark that it has met."""
        self._arrived.append(batch)

    def take(self, up_to: int, check: Callable[[Batch], None] | None = None) -> list[Batch]:
        """Take the records that are due when event time has come to ``up_to``, in the order in which they came.

        Those of earlier epochs have met the lowest watermark: they are not late.

        Args:
            up_to: see above.
            check: refuses records that cannot be put in order; of many at once that costs less. None where they were
                checked before.
        """
        found = self._take_stored(up_to)
        if self._arrived:
            batch = concat_keyed(self._arrived)
            if check is not None:
                check(batch)
            due, self._arrived = _divided(batch, np.maximum(batch.timestamps, batch.watermarks) <= up_to)
            found += due
        return found

    def end_epoch(self) -> None:
        """Puts what waits still into state."""
        if self._arrived:
            self._store(concat_keyed(self._arrived))
        self._arrived = []

    @abstractmethod
    def _take_stored(self, up_to: int) -> list[Batch]: ...

    @abstractmethod
    def _store(self, batch: Batch) -> None: ...


class WaitingInTable(WaitingForEventTime):
    """The rows that no other subtask has, as rows of a sorted table.

    At another parallelism those of a keyed input go with their keys, and those of an input without keys are dealt out
    as the elements of a list are.

    Args:
        state: the state of the operator.
        number: that of the input.
        type_: the type of the records.
        renamed: which of their fields have other names than in what is stored.
        is_keyed: whether the input has keys.
    """

    def __init__(
        self, state: OperatorStates, number: int, type_: TypeInformation, renamed: RenamedFields, *, is_keyed: bool
    ) -> None:
        super().__init__()
        self._is_keyed = is_keyed
        name, codec = f"{STORE}-{number}", state.keyed.codec if is_keyed else None
        store = state.store(name) if is_keyed else state.operator_state_store.list_log(name)
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

    def _take_stored(self, up_to: int) -> list[Batch]:
        batches = self._table.up_to(up_to)
        self._table.forget(up_to)
        return [self._stored(batch) for batch in batches]

    def _stored(self, batch: pa.RecordBatch) -> Batch:
        times, hashes, *keys, records = batch.columns
        columns = layout_of(self._type).array_to_columns(records)
        stored = Batch(self._type, times.to_numpy(), _not_late(len(times)), columns=columns)
        return KeyedBatch.of(stored, KeyColumn(keys[0], hashes.to_numpy())) if keys else stored

    def _store(self, batch: Batch) -> None:
        # A sorted table has hashes: here all rows without keys are as of one key.
        column = keys_of(batch) if self._is_keyed else None
        hashes = np.zeros(len(batch), np.uint64) if column is None else column.hashes
        keys = [] if column is None else [column.values]
        order = group_rows(batch.timestamps, hashes, *keys).order
        columns = [pa.array(batch.timestamps), pa.array(hashes), *keys, batch.as_array()]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._layout.schema)
        self._table.append(rows.take(pa.array(order)))


class WaitingInBroadcastState(WaitingForEventTime):
    """The batches of an input that all subtasks receive as a whole, in a map by timestamp that all have alike.

    Args:
        states: the states without keys of the operator.
        type_: the type of the records.
        renamed: which of their fields have other names than in what is stored.
    """

    def __init__(self, states: StatesWithoutKeys, type_: TypeInformation, renamed: RenamedFields) -> None:
        super().__init__()
        self._type = type_
        descriptor = MapStateDescriptor(STORE, Types.LONG(), Types.LIST(Types.TUPLE([type_])))
        descriptor.keep_for_operator(f"the state of {_WAITING}", renamed.inside("f0"))
        self._map = states.broadcast_state(descriptor)

    def _take_stored(self, up_to: int) -> list[Batch]:
        end = None if up_to == MAX_WATERMARK else up_to + 1
        found = list(self._map.items_between(None, end))
        if not found:
            return []
        for time, _ in found:
            self._map.remove(time)
        rows = [row for _, records in found for (row,) in records]
        times = np.repeat([time for time, _ in found], [len(records) for _, records in found])
        return [Batch.of_rows(self._type, rows, times, _not_late(len(times)))]

    def _store(self, batch: Batch) -> None:
        by_time: dict[int, list[Any]] = {}
        for row, time in zip(batch.rows, batch.timestamps.tolist(), strict=True):
            by_time.setdefault(time, []).append((row,))
        for time, rows in by_time.items():
            self._map.put(time, [*(self._map.get(time) or ()), *rows])


def _divided(batch: Batch, is_due: npt.NDArray[np.bool_]) -> tuple[list[Batch], list[Batch]]:
    """The records that are due, and the others. Those at the beginning that are due, nearly all as a rule, stay."""
    first = len(batch) if is_due.all() else int(np.argmin(is_due))
    due, rest = [batch.slice(0, first)] if first else [], batch.slice(first, len(batch))
    is_rest_due = is_due[first:]
    if is_rest_due.any():
        due.append(rest.filter(is_rest_due))
        rest = rest.filter(~is_rest_due)
    return due, [rest] if len(rest) else []


def _not_late(records: int) -> Longs:
    return np.full(records, MIN_WATERMARK)


def hashes_of(batch: Batch) -> npt.NDArray[np.uint64]:
    """The hashes of the keys of records; zeros where there are none."""
    return batch.keys.hashes if isinstance(batch, KeyedBatch) else np.zeros(len(batch), np.uint64)


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
    def of_nothing(watermarks: list[int]) -> "OrderedRecords":
        """Places for as many records as there are watermarks."""
        size = len(watermarks)
        return OrderedRecords([0] * size, [None] * size, [0] * size, watermarks, [NO_KEY] * size)

    def put(self, places: Sequence[int], number: int, part: Batch, indices: Longs, keyed: KeyedStates | None) -> None:
        """Puts some records of an input into their places; ``keyed`` has the keys of those that have any."""
        if not places:
            return
        some = part.take(indices)
        for place, row, timestamp in zip(places, some.rows, some.timestamps.tolist(), strict=True):
            self.inputs[place], self.rows[place], self.timestamps[place] = number, row, timestamp
        if isinstance(some, KeyedBatch) and keyed is not None:
            for place, entry in zip(places, keyed.bind(some.keys), strict=True):
                self.entries[place] = entry
