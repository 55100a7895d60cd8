"""What windows have shown last, in state of key and window, so that it can be taken back when they fire again.

The functions of a program need not give the same results for the same elements twice, so results are kept as they
were. A window that has become part of another one hands its results on: the other one takes them back with its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.common.batch import Batch
from headrace.common.types import Row, RowKind, make_row
from headrace.common.values import handler_of
from headrace.operators.window.general.contents import StateOfWindows
from headrace.operators.window.stores import ADVICE, SHOWN
from headrace.state.descriptors import ListStateDescriptor
from headrace.state.keys.codecs import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.keys.codecs import AnyKeyEntry, NoKey
    from headrace.state.protocols import KeyedStates
    from headrace.state.renamed_fields import RenamedFields


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
        """What a window emits when it shows some results: all former ones are taken back first.

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


class _Event(NamedTuple):
    """What happened to a window.

    Attributes:
        key: the key.
        namespace: the window.
        is_shown: whether it has fired, with a result.
        nothing_at: timestamp and watermark of what it emits where it has fired without a result.
        sources: the windows that have become part of it.
    """

    key: AnyKeyEntry | NoKey
    namespace: GivenNamespace
    is_shown: bool = False
    nothing_at: tuple[int, int] | None = None
    sources: Sequence[GivenNamespace] = ()


class RecordedResults(EmittedResults):
    """The same for results that are made at the end of a batch: until then, what happens to windows is noted.

    Args:
        keyed: the state.
        type_: the type of the results, which are rows.
        renamed: which of their fields have other names than in what is stored.
    """

    def __init__(self, keyed: KeyedStates, type_: TypeInformation, renamed: RenamedFields) -> None:
        super().__init__(keyed, type_, renamed)
        self._events: list[_Event] = []

    def show(self, namespace: GivenNamespace) -> None:
        """A window has fired, and will have one result."""
        self._events.append(_Event(self._keyed.current, namespace, is_shown=True))

    def show_nothing(self, namespace: GivenNamespace, timestamp: int, watermark: int) -> None:
        """A window has fired, and has no result any more; with which timestamp and watermark it takes back the last."""
        self._events.append(_Event(self._keyed.current, namespace, nothing_at=(timestamp, watermark)))

    def clear(self, namespace: GivenNamespace) -> None:
        self._events.append(_Event(self._keyed.current, namespace))

    def merge(self, namespace: GivenNamespace, sources: Sequence[GivenNamespace]) -> None:
        self._events.append(_Event(self._keyed.current, namespace, sources=tuple(sources)))

    def all_changes(self, results: Sequence[Batch]) -> list[Batch]:
        """What is emitted for the results of all windows that have fired since the last time, in that order.

        Args:
            results: one row for each firing, in one batch; none where none has fired.
        """
        shown = (
            result
            for batch in results
            for result in zip(batch.rows, batch.timestamps.tolist(), batch.watermarks.tolist(), strict=True)
        )
        told: list[tuple[Row, int, int]] = []
        events, self._events = self._events, []
        try:
            for event in events:
                self._keyed.current = event.key
                if event.is_shown:
                    row, timestamp, watermark = next(shown)
                    told += [(change, timestamp, watermark) for change in self.changes(event.namespace, [row])]
                elif event.nothing_at is not None:
                    told += [(change, *event.nothing_at) for change in self.changes(event.namespace, [])]
                elif event.sources:
                    super().merge(event.namespace, event.sources)
                else:
                    super().clear(event.namespace)
        finally:
            self._keyed.current = NO_KEY
        if not told:
            return []
        rows, timestamps, watermarks = (list(column) for column in zip(*told, strict=True))
        return [Batch.of_rows(self._type, rows, timestamps, watermarks)]


def _of_kinds(rows: Sequence[Row], count: int, first: RowKind, others: RowKind) -> list[Row]:
    """Copies of some rows, so many of which are of the first kind."""
    kinds = [first] * count + [others] * (len(rows) - count)
    return [make_row(row._fields, row._values, kind) for row, kind in zip(rows, kinds, strict=True)]
