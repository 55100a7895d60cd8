"""The contents of windows in state of key and window, and the results that were emitted, where they are retracted.

They hold one folded value, all elements, or those that an evictor leaves. The functions of a program need not give the
same results for the same elements twice, so results are kept as they were. A window that has become part of another one
hands its results on: the other one takes them back with its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from headrace.common.batch import Batch
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row, RowKind, make_row
from headrace.common.values import handler_of
from headrace.operators.window.general.window_functions import Fold, OperatorTime
from headrace.operators.window.stored_windows import ADVICE, CONTENTS, SHOWN, StoredWindow
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    StateDescriptor,
)
from headrace.state.evolution import RenamedFields
from headrace.state.keyed.namespaces import GivenNamespace
from headrace.state.keys.codecs import NO_KEY, KeyEntry
from headrace.state.protocols import KeyedStates
from headrace.windowing.evictors import Evictor, TimestampedValue


class StateOfWindows:
    """A state of key and window. Every call is about the current key.

    Args:
        keyed: the state of all keys.
        descriptor: how it is kept.
    """

    def __init__(self, keyed: KeyedStates, descriptor: StateDescriptor) -> None:
        self._keyed = keyed
        self._descriptor = descriptor
        self._state = keyed.namespaced_state(descriptor)

    def clear(self, namespace: GivenNamespace) -> None:
        """Drops what a window has."""
        self._keyed.namespace = namespace
        self._state.clear()

    def merge(self, namespace: GivenNamespace, sources: Sequence[GivenNamespace]) -> None:
        """Moves what other windows have into this one."""
        self._keyed.namespace = namespace
        self._keyed.merge_namespaces(self._descriptor, sources)


class KeyedContents(StateOfWindows, ABC):
    """The contents of windows in state of key and window. Calls with a namespace are about it and the current key.

    Args:
        keyed: the state.
        kind: what the windows are, in words; what those of another kind hold is refused.
        descriptor: how it is kept.
        renamed: which fields of it have other names than in what is stored.
    """

    def __init__(self, keyed: KeyedStates, kind: str, descriptor: StateDescriptor, renamed: RenamedFields) -> None:
        descriptor.namespaces = kind
        descriptor.keep_for_operator("what windows hold", renamed, ADVICE)
        super().__init__(keyed, descriptor)

    def end_epoch(self) -> None:
        """Writes what is not in state yet."""

    def add(self, namespace: GivenNamespace, element: Any, timestamp: int) -> None:
        """Adds an element."""
        self._keyed.namespace = namespace
        self._state.add(element)

    @abstractmethod
    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any] | None:
        """The input of the window function; None when it is not to be called."""

    def after_firing(self, namespace: GivenNamespace, window: Any) -> None:
        """Is called after the window function."""

    def stored(self) -> Sequence[tuple[KeyEntry, GivenNamespace]]:
        """The keys and namespaces of which something may be stored."""
        pairs = self._keyed.keys_and_namespaces(self._descriptor)
        return [(key, namespace) for key, namespace in pairs if namespace is not None]

    def held(self, namespace: GivenNamespace, window: Any) -> Sequence[Any] | None:
        """The input of the window function if no element were removed before; None for nothing."""
        return self.elements(namespace, window)


class FoldedContents(KeyedContents):
    """One value that the elements are folded into as they come: a reduced one, or an accumulator.

    It is kept in a tuple, since it may be None, as a result may be; no elements are none.

    Args:
        keyed: the state.
        kind: see the base class.
        fold: the function.
        renamed: which fields of the value have other names than in what is stored.
    """

    def __init__(self, keyed: KeyedStates, kind: str, fold: Fold, renamed: RenamedFields) -> None:
        descriptor = AggregatingStateDescriptor(CONTENTS, _InTuple(fold), Types.TUPLE([fold.type_]))
        super().__init__(keyed, kind, descriptor, renamed.inside("f0"))

    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any] | None:
        self._keyed.namespace = namespace
        result: tuple[Any] | None = self._state.get()
        return result


class _InTuple:
    """A fold as the function of an aggregating state."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold

    def create_accumulator(self) -> tuple[Any, ...]:
        return ()

    def add(self, element: Any, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._fold.checked(self._fold.add(value[0], element) if value else self._fold.first(element), "add"),)

    def merge(self, value: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._fold.checked(self._fold.merge(value[0], other[0]), "merge"),)

    def get_result(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._fold.result(value[0]),)


class ListedContents(KeyedContents):
    """All elements, in the order in which they came.

    Args:
        keyed: the state.
        kind: what the windows are.
        type_: the type of the elements.
        renamed: which of their fields have other names than in what is stored.
    """

    def __init__(self, keyed: KeyedStates, kind: str, type_: TypeInformation, renamed: RenamedFields) -> None:
        descriptor = ListStateDescriptor(CONTENTS, type_)
        descriptor.takes_none = True
        super().__init__(keyed, kind, descriptor, renamed)

    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any] | None:
        self._keyed.namespace = namespace
        return self._state.get() or None


class EvictedContents(KeyedContents):
    """All elements with their timestamps, some of which an evictor removes when the window fires.

    Args:
        keyed: the state.
        kind: what the windows are.
        type_: the type of the elements.
        evictor: the evictor.
        time: the times for the evictor.
        fold: makes the input of the window function from the elements that are left; None without a call of it.
        renamed: which fields of the elements have other names than in what is stored.
    """

    def __init__(
        self,
        keyed: KeyedStates,
        kind: str,
        type_: TypeInformation,
        evictor: Evictor[Any, Any],
        time: OperatorTime,
        fold: Fold | None,
        renamed: RenamedFields,
    ) -> None:
        descriptor = ListStateDescriptor(CONTENTS, Types.TUPLE([type_, Types.LONG()]))
        super().__init__(keyed, kind, descriptor, renamed.inside("f0"))
        self._evictor = evictor
        self._time = time
        self._fold = fold
        self._held = 0
        self._left: list[TimestampedValue[Any]] = []

    def add(self, namespace: GivenNamespace, element: Any, timestamp: int) -> None:
        self._keyed.namespace = namespace
        self._state.add((element, timestamp))

    def held(self, namespace: GivenNamespace, window: Any) -> Sequence[Any] | None:
        self._keyed.namespace = namespace
        return [value for value, _ in self._state.get()] or None

    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any] | None:
        self._keyed.namespace = namespace
        held = [
            TimestampedValue(value, None if timestamp == NO_TIMESTAMP else timestamp)
            for value, timestamp in self._state.get()
        ]
        self._held = len(held)
        if not held:
            return None
        self._left = self._answer("evict_before", held, window)
        left = [element.value for element in self._left]
        return left if self._fold is None else self._fold.of_all(left)

    def after_firing(self, namespace: GivenNamespace, window: Any) -> None:
        if not self._held:
            return
        left = self._answer("evict_after", self._left, window)
        if len(left) < self._held:
            self._keep(namespace, left)
        self._left = []

    def _answer(self, method: str, elements: list[TimestampedValue[Any]], window: Any) -> list[TimestampedValue[Any]]:
        left = getattr(self._evictor, method)(elements, len(elements), window, self._time)
        kept = list(left) if isinstance(left, Iterable) else [left]
        for element in kept:
            if not isinstance(element, TimestampedValue):
                name = f"{type(self._evictor).__name__}.{method}"
                raise InvalidTypeError(
                    f"{name} has to return the elements that stay, as it was given them, not {element!r}"
                )
        return kept

    def _keep(self, namespace: GivenNamespace, kept: Sequence[TimestampedValue[Any]]) -> None:
        self._keyed.namespace = namespace
        pairs = [(value.value, NO_TIMESTAMP if value.timestamp is None else value.timestamp) for value in kept]
        self._state.update(pairs)


class EmittedResults(StateOfWindows):
    """The results of windows, in the namespaces that contents are kept in. Of a window that goes, the last ones stand.

    Args:
        keyed: the state.
        type_: the type of the results, which are rows.
        renamed: which of their fields have other names than in what is stored.
    """

    def __init__(self, keyed: KeyedStates, type_: TypeInformation, renamed: RenamedFields) -> None:
        descriptor = ListStateDescriptor(SHOWN, type_)
        descriptor.keep_for_operator("what windows have shown", renamed, ADVICE)
        super().__init__(keyed, descriptor)
        self._type = type_
        self._coerce = handler_of(type_).coerce

    def changes(self, namespace: GivenNamespace, results: Sequence[Any]) -> list[Row]:
        """The changes that a window emits for new results: all former ones are taken back first.

        Each of them is an update as far as there is a new result for it, and a deletion beyond that; likewise the new
        ones are updates and insertions.

        Raises:
            InvalidTypeError: when a result does not fit its type, or is no insertion.
        """
        results = [self._coerce(result, "the result") for result in results]
        self._keyed.namespace = namespace
        former = self._state.get()
        self._state.update(results)
        updated = min(len(former), len(results))
        return [
            *_of_kinds(former, updated, RowKind.UPDATE_BEFORE, RowKind.DELETE),
            *_of_kinds(results, updated, RowKind.UPDATE_AFTER, RowKind.INSERT),
        ]


_StampedRow = tuple[Row, int, int]
"""A row, its timestamp and the watermark that it is emitted under."""


class RecordedResults(EmittedResults):
    """The same for results that are made at the end of a batch: until then, what happens to windows is noted.

    Args:
        keyed: the state.
        type_: the type of the results, which are rows.
        renamed: which of their fields have other names than in what is stored.
    """

    def __init__(self, keyed: KeyedStates, type_: TypeInformation, renamed: RenamedFields) -> None:
        super().__init__(keyed, type_, renamed)
        self._events: list[tuple[KeyEntry, Callable[[Iterator[_StampedRow]], list[_StampedRow] | None]]] = []

    def show(self, namespace: GivenNamespace) -> None:
        """A window has fired, and will have one result."""

        def changed(shown: Iterator[_StampedRow]) -> list[_StampedRow]:
            row, timestamp, watermark = next(shown)
            return [(change, timestamp, watermark) for change in self.changes(namespace, [row])]

        self._events.append((self._keyed.current, changed))

    def show_nothing(self, namespace: GivenNamespace, timestamp: int, watermark: int) -> None:
        """A window has fired, and has no result any more; with which timestamp and watermark it takes back the last."""

        def changed(_: Iterator[_StampedRow]) -> list[_StampedRow]:
            return [(change, timestamp, watermark) for change in self.changes(namespace, [])]

        self._events.append((self._keyed.current, changed))

    def clear(self, namespace: GivenNamespace) -> None:
        clear = super().clear
        self._events.append((self._keyed.current, lambda _: clear(namespace)))

    def merge(self, namespace: GivenNamespace, sources: Sequence[GivenNamespace]) -> None:
        merge, merged = super().merge, tuple(sources)
        self._events.append((self._keyed.current, lambda _: merge(namespace, merged)))

    def all_changes(self, results: Sequence[Batch]) -> list[Batch]:
        """The output for the results of all windows that have fired since the last time, in that order.

        Args:
            results: one row for each firing, in one batch; none where none has fired.
        """
        shown = (
            result
            for batch in results
            for result in zip(batch.rows, batch.timestamps.tolist(), batch.watermarks.tolist(), strict=True)
        )
        changed: list[_StampedRow] = []
        events, self._events = self._events, []
        try:
            for key, event in events:
                self._keyed.current = key
                changed += event(shown) or ()
        finally:
            self._keyed.current = NO_KEY
        if not changed:
            return []
        rows, timestamps, watermarks = (list(column) for column in zip(*changed, strict=True))
        return [Batch.of_rows(self._type, rows, timestamps, watermarks)]


def _of_kinds(rows: Sequence[Row], count: int, first: RowKind, others: RowKind) -> list[Row]:
    """Copies of some rows, so many of which are of the first kind."""
    kinds = [first] * count + [others] * (len(rows) - count)
    return [make_row(row._fields, row._values, kind) for row, kind in zip(rows, kinds, strict=True)]


def held_by_key(
    contents: KeyedContents, keyed: KeyedStates, window_of: Callable[[GivenNamespace], Any]
) -> Iterator[StoredWindow]:
    """Windows whose contents are state of key and window.

    Args:
        contents: the contents.
        keyed: the state.
        window_of: the window of the current key whose contents are in a namespace.
    """
    for entry, namespace in contents.stored():
        keyed.current = entry
        window = window_of(namespace)
        held = contents.held(namespace, window)
        if held is not None:
            yield StoredWindow(entry.key, window, list(held))
