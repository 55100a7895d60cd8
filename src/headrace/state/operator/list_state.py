"""``OperatorListState``: a list that belongs to a subtask, as runs of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.values import handler_of
from headrace.state.arguments import elements_of
from headrace.state.copying import copy_value
from headrace.state.interfaces import ListState
from headrace.state.keyed.table import Elements, evolve
from headrace.state.runs.layout import KIND, SUBTASK_LIST, TYPES, VALUE
from headrace.state.runs.merging import merge_small_runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.state.descriptors import ListStateDescriptor
    from headrace.state.runs import RunStore


class OperatorListState(ListState[Any]):
    """A list. ``add`` reads nothing; a list that is replaced by an equal one has not changed.

    Args:
        store: its runs.
        descriptor: what the program says about it.

    Raises:
        StateMigrationError: when elements of another type are stored.
    """

    def __init__(self, store: RunStore, descriptor: ListStateDescriptor) -> None:
        self._store = store
        self._elements = Elements(descriptor.element_type, expires=False)
        self._coerce = handler_of(descriptor.element_type).coerce
        self._label = descriptor.label
        self._subject = f"{descriptor.label}: the element"
        self._meta = meta_of_list(descriptor)
        self._added: list[Any] = []
        self._cleared = False
        for run in store.runs:
            evolve(store, run, descriptor)

    def get(self) -> list[Any]:
        stored = [] if self._cleared else self._read()
        return stored + list(map(copy_value, self._added))

    def add(self, value: Any) -> None:
        self._added.append(self._stored(value))

    def add_all(self, values: Iterable[Any]) -> None:
        self._added.extend(self._all_stored(values, "add_all"))

    def update(self, values: Iterable[Any]) -> None:
        self._replace(self._all_stored(values, "update"))

    def clear(self) -> None:
        self._replace([])

    def end_epoch(self) -> None:
        """Writes the elements that were added, or all where older ones are void."""
        added = self._elements.to_columns(self._added)
        if not (self._cleared and self._is_stored(added[VALUE])):
            if self._cleared and self._store.runs:
                self._store.replace(self._store.runs, None, {})
            self._store.append(pa.RecordBatch.from_pydict(added), self._meta)
            merge_small_runs(self._store, now=0)
        self._added, self._cleared = [], False

    def _replace(self, elements: list[Any]) -> None:
        self._added, self._cleared = elements, True

    def _all_stored(self, values: Iterable[Any], method: str) -> list[Any]:
        return [self._stored(value) for value in elements_of(values, f"{self._label}: {method}()")]

    def _stored(self, value: Any) -> Any:
        if value is None:
            raise InvalidTypeError(f"{self._subject} cannot be None")
        return copy_value(self._coerce(value, self._subject), self._subject)

    def _read(self) -> list[Any]:
        elements: list[Any] = []
        for run in self._store.runs:
            elements += self._elements.from_columns(run.column(VALUE), None)
        return elements

    def _is_stored(self, added: pa.Array) -> bool:
        """Whether the elements are those that the runs hold already, to the last bit."""
        if self._store.rows != len(added):
            return False
        stored = [run.column(VALUE) for run in self._store.runs]
        return not stored or _bits(pa.concat_arrays(stored)).equals(_bits(added))


def _bits(array: pa.Array) -> pa.Buffer:
    """The same for arrays that are the same: 0.0 is not -0.0 here, and NaN is NaN."""
    return pa.record_batch([array], [VALUE]).serialize()


def meta_of_list(descriptor: ListStateDescriptor) -> dict[str, Any]:
    """What the runs of a list say about themselves."""
    return {KIND: SUBTASK_LIST, TYPES: descriptor.stored_types()}
