"""What windows of fixed ends hold, ordered by their ends: what came in this epoch in dicts, the rest in a table.

Windows that are folded hold one value a key and window: the values of the keys that a batch touches are read, and those
that were touched are written when the epoch ends; the newest run that has a key and window is right. Windows that keep
all their elements are only appended to; their elements are read when the window fires, run after run.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import InvalidProgramError
from headrace.operators.user_code import NO_RECORD, user_error
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.operators.window.general.contents import WindowContents
from headrace.operators.window.lateness import cleaned_end, passed_end
from headrace.operators.window.stores import (
    ELEMENTS_KIND,
    STORE,
    VALUES_KIND,
    check_has_no_keyed_contents,
    contents_layout,
)
from headrace.state.copying import copy_value
from headrace.state.keys import KeyColumn
from headrace.state.ordered_table import OrderedTable
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.runs.ordered import all_rows, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import OperatorContext
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.general.folds import Fold
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.runs.ordered import Combine
    from headrace.windowing.intervals import Assignment, RegularWindows

    Longs = npt.NDArray[np.int64]

Held = dict[Any, Any]
"""What a window holds by canonical key: a folded value, or the list of elements."""


class KeysOfWindow(NamedTuple):
    """What a window holds of all keys.

    Attributes:
        keys: the keys, in the order in which they fire.
        held: what it holds of each.
        shown: makes of that what a function sees.
    """

    keys: KeyColumn
    held: list[Any]
    shown: Callable[[Any], Sequence[Any]]


class OrderedContents(WindowContents):
    """What the windows of one subtask hold; the namespace of a window is its end.

    Args:
        context: the operator.
        kind: the kind of the runs in state.
        combine: makes one batch of several of them.
        windows: the windows.
        type_: the type of what is kept.
        lateness: how long windows are kept after their ends, in milliseconds.
    """

    def __init__(
        self,
        context: OperatorContext,
        kind: str,
        combine: Combine,
        windows: RegularWindows,
        type_: TypeInformation,
        lateness: int,
    ) -> None:
        assert context.state is not None
        self._context = context
        self._keyed = context.state.keyed
        self._type = type_
        self._lateness = lateness
        codec = self._keyed.codec
        types = {"window_end": pa.int64(), "hash": pa.uint64(), "key": codec.arrow_type, "value": type_.storage_type}
        kept_as = contents_layout(kind, pa.schema(types), codec, windows, types=type_.to_json())
        self._schema, self._meta = kept_as.schema, kept_as.meta
        self._table = OrderedTable(context.state.store(STORE), kept_as, combine)
        self._windows: dict[int, Held] = {}

    # --- elements ----------------------------------------------------------------------------------------------------

    def add_all(self, batch: KeyedBatch, pairs: Assignment) -> None:
        """Adds elements to windows that have not fired yet: nobody sees in which order.

        Raises:
            UserFunctionError: when a function that folds them fails; it names the element.
        """
        if not len(pairs.ends):
            return
        rows, keys = batch.rows, batch.keys.values.to_pylist()
        if not pairs.is_identity:
            records = pairs.records.tolist()
            rows, keys = [rows[i] for i in records], [keys[i] for i in records]
        self._add_all(pairs.ends.tolist(), keys, rows)

    @abstractmethod
    def recall(self, ends: Longs, keys: KeyColumn) -> None:
        """Reads together what is stored for windows and keys that single elements will be added to."""

    @abstractmethod
    def shown(self, held: Any) -> Sequence[Any]:
        """What a function sees of what a window holds for a key."""

    @abstractmethod
    def _add_all(self, ends: Sequence[int], keys: Sequence[Any], elements: Sequence[Any]) -> None:
        """Adds each element to the window with its end, for its key."""

    def add(self, namespace: GivenNamespace, element: Any, timestamp: int) -> None:
        self._add_all((_end(namespace),), (self._keyed.current.raw,), (element,))

    def clear(self, namespace: GivenNamespace) -> NoReturn:
        raise InvalidProgramError(
            "the trigger says of itself that it fires at the end of a window and does nothing else "
            "(fires_only_at_end), but it purges: leave fires_only_at_end as it is, False"
        )

    # --- time --------------------------------------------------------------------------------------------------------

    def begin_epoch(self) -> None:
        check_has_no_keyed_contents(self._context)
        self._table.begin_epoch()
        self._windows = {}

    def ends_between(self, after: int, upto: int) -> set[int]:
        """The ends of all windows whose largest timestamp is above ``after`` but not above ``upto``."""
        stored = self._table.times_between(passed_end(after), passed_end(upto)).tolist()
        return {*stored, *(end for end in self._windows if after < end - 1 <= upto)}

    def of_all_keys(self, end: int) -> KeysOfWindow:
        """What a window holds; keys by their hashes, then by themselves."""
        found: dict[int, Held] = {}
        for batch in self._table.between(end - 1, end):
            self._gather(found, batch, None)
        window = found.get(end, {})
        for key, held in self._windows.get(end, {}).items():
            window[key] = self._joined(window[key], held) if key in window else held
        keys = KeyColumn.of(pa.array(list(window), self._keyed.codec.arrow_type))
        keys = keys.take(group_rows(np.zeros(len(keys), np.int64), keys.hashes, keys.values).order)
        return KeysOfWindow(keys, [window[key] for key in keys.values.to_pylist()], self.shown)

    def forget(self, watermark: int) -> None:
        """Drops the windows that go at this watermark, or have gone."""
        last = cleaned_end(watermark, self._lateness)
        self._table.forget(last)
        _drop(self._windows, last)

    def end_epoch(self, watermark: int) -> None:
        self.forget(watermark)
        if self._windows:
            self._table.append(self._new_rows())
        self._table.end_epoch()

    # --- state -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _joined(self, stored: Any, held: Any) -> Any:
        """What a window holds for a key, of what is stored and what came in this epoch."""

    @abstractmethod
    def _take_up(self, window: Held, key: Any, value: Any) -> None:
        """Adds a stored row to what older rows have."""

    @abstractmethod
    def _stored(self, held: Any) -> Sequence[Any]:
        """The rows of what came in this epoch for a key."""

    def _read(self, into: dict[int, Held], ends: Longs, keys: KeyColumn) -> None:
        """Reads what is stored for some windows and keys, unless it is there already."""
        if self._table.next_above(int(ends.min()) - 1) > int(ends.max()):
            return
        groups = group_rows(ends, keys.hashes, keys.values)
        ends, keys = ends[groups.first_rows], keys.take(groups.first_rows)
        pairs = zip(ends.tolist(), keys.values.to_pylist(), strict=True)
        wanted = {(end, key) for end, key in pairs if key not in into.get(end, ())}
        found: dict[int, Held] = {}
        for batch in self._table.find(ends, keys.hashes):
            self._gather(found, batch, wanted)
        for end, window in found.items():
            into.setdefault(end, {}).update(window)

    def _gather(self, windows: dict[int, Held], batch: pa.RecordBatch, wanted: set[tuple[int, Any]] | None) -> None:
        """Adds the rows of a run, or those that are wanted, to what older runs have."""
        rows = Accumulators.of_batch(batch)
        values = array_to_values(self._type, rows.columns[0])
        for end, key, value in zip(rows.ends.tolist(), rows.keys.to_pylist(), values, strict=True):
            if wanted is None or (end, key) in wanted:
                self._take_up(windows.setdefault(end, {}), key, value)

    def _new_rows(self) -> pa.RecordBatch:
        ends: list[int] = []
        keys: list[Any] = []
        values: list[Any] = []
        for end, window in self._windows.items():
            for key, held in window.items():
                stored = self._stored(held)
                values.extend(stored)
                keys.extend([key] * len(stored))
                ends.extend([end] * len(stored))
        column = KeyColumn.of(pa.array(keys, self._keyed.codec.arrow_type))
        arrays = [pa.array(ends, pa.int64()), pa.array(column.hashes), column.values]
        batch = pa.RecordBatch.from_arrays([*arrays, values_to_array(self._type, values)], schema=self._schema)
        return all_rows(self._meta, [batch])


class OrderedElements(OrderedContents):
    """All elements, in the order in which they came.

    Args:
        context: the operator.
        windows: the windows.
        type_: the type of the elements.
        lateness: how long windows are kept after their ends, in milliseconds.
    """

    def __init__(
        self, context: OperatorContext, windows: RegularWindows, type_: TypeInformation, lateness: int
    ) -> None:
        super().__init__(context, ELEMENTS_KIND, all_rows, windows, type_, lateness)
        self._recalled: dict[int, Held] = {}

    def begin_epoch(self) -> None:
        super().begin_epoch()
        self._recalled = {}

    def forget(self, watermark: int) -> None:
        super().forget(watermark)
        _drop(self._recalled, cleaned_end(watermark, self._lateness))

    def recall(self, ends: Longs, keys: KeyColumn) -> None:
        self._read(self._recalled, ends, keys)

    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any]:
        end, key = _end(namespace), self._keyed.current.raw
        return [*self._recalled.get(end, {}).get(key, ()), *self._windows[end][key]]

    def shown(self, held: Any) -> Sequence[Any]:
        elements: list[Any] = held.copy() if self._lateness else held  # late elements must not get into what was shown
        return elements

    def _add_all(self, ends: Sequence[int], keys: Sequence[Any], elements: Sequence[Any]) -> None:
        windows = self._windows
        for end, key, element in zip(ends, keys, elements, strict=True):
            window = windows.get(end)
            if window is None:
                window = windows[end] = {}
            held = window.get(key)
            if held is None:
                window[key] = [element]
            else:
                held.append(element)

    def _joined(self, stored: Any, held: Any) -> Any:
        return [*stored, *held]

    def _take_up(self, window: Held, key: Any, value: Any) -> None:
        window.setdefault(key, []).append(value)

    def _stored(self, held: Any) -> Sequence[Any]:
        elements: list[Any] = held
        return elements


class OrderedValues(OrderedContents):
    """One value that the elements are folded into as they come.

    Args:
        context: the operator.
        windows: the windows.
        type_: the type of the values.
        lateness: how long windows are kept after their ends, in milliseconds.
        fold: folds elements into values.
    """

    def __init__(
        self, context: OperatorContext, windows: RegularWindows, type_: TypeInformation, lateness: int, fold: Fold
    ) -> None:
        super().__init__(context, VALUES_KIND, newest, windows, type_, lateness)
        self._fold = fold

    def recall(self, ends: Longs, keys: KeyColumn) -> None:
        self._read(self._windows, ends, keys)

    def add_all(self, batch: KeyedBatch, pairs: Assignment) -> None:
        if len(pairs.ends):
            self.recall(pairs.ends, batch.keys if pairs.is_identity else batch.keys.take(pairs.records))
        super().add_all(batch, pairs)

    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any]:
        return self.shown(self._windows[_end(namespace)][self._keyed.current.raw])

    def shown(self, held: Any) -> Sequence[Any]:
        result = self._fold.result(held)
        # What is kept for late elements must not change with what was emitted, or the other way round.
        return (copy_value(result) if self._lateness else result,)

    def _add_all(self, ends: Sequence[int], keys: Sequence[Any], elements: Sequence[Any]) -> None:
        windows, first, add = self._windows, self._fold.first, self._fold.add
        element: Any = NO_RECORD
        try:
            for end, key, element in zip(ends, keys, elements, strict=True):
                window = windows.get(end)
                if window is None:
                    window = windows[end] = {}
                window[key] = add(window[key], element) if key in window else first(element)
        except BaseException as error:
            raise user_error(error, self._context, element) from error

    def _joined(self, stored: Any, held: Any) -> Any:
        return held

    def _take_up(self, window: Held, key: Any, value: Any) -> None:
        window[key] = value

    def _stored(self, held: Any) -> Sequence[Any]:
        return (held,)


def _drop(windows: dict[int, Held], last: int) -> None:
    for end in [end for end in windows if end <= last]:
        del windows[end]


def _end(namespace: GivenNamespace) -> int:
    assert isinstance(namespace, int), "windows of fixed ends are known by them"
    return namespace


register_ordered_merger(VALUES_KIND, newest)
register_ordered_merger(ELEMENTS_KIND, all_rows)
