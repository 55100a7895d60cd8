"""``ReducingState`` and ``AggregatingState``: one element per key that every added value is folded into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.call_site import of_function
from headrace.common.errors import InvalidTypeError
from headrace.state.copying import copy_value
from headrace.state.interfaces import AggregatingState, ReducingState
from headrace.state.keyed.value_state import CHANGED, ElementCells

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor
    from headrace.state.keyed.scope import StateScope


class _Folded:
    """The element of the current key, with or without a time to live.

    Args:
        scope: says which key that is.
        cells: the elements.
        type_: the type of the values.
    """

    __slots__ = ("_cells", "_coerce", "_is_coerced", "_is_immutable", "_now", "_replaces", "_scope")

    def __init__(self, scope: StateScope, cells: ElementCells, type_: TypeInformation) -> None:
        self._scope = scope
        self._cells = cells
        self._now = cells.now
        self._coerce, self._is_coerced = cells.handler.coerce, cells.handler.is_coerced
        self._replaces = type_.is_immutable and cells.table.ttl is None
        self._is_immutable = type_.is_immutable

    def live(self) -> Any:
        """The element that a new value is to be folded into: an expired one never is."""
        value = self._cells.read()
        if self._cells.table.ttl is None:
            return value
        return value if self._now[self._scope.current.ordinal] is not None else None

    def write(self, value: Any) -> None:
        """Replaces the element, which may be the old one, changed in place; to be called when that has been read."""
        ordinal = self._scope.current.ordinal
        if not self._is_coerced(value):
            value = self._coerce(value, self._cells.subject)
        if self._replaces:
            self._now[ordinal] = value
            return
        table = self._cells.table
        if table.ttl is not None:
            value = (value, table.ttl.expiry(table.now(self._scope)))
        self._now[ordinal] = value
        self._cells.stored[ordinal] = CHANGED

    def clear(self) -> None:
        """Removes the element."""
        ordinal = self._scope.current.ordinal
        if ordinal >= len(self._now):
            self._cells.grow()
        self._now[ordinal] = None

    def take(self) -> Any:
        """The element, which is removed; None when there is none."""
        value = self.live()
        self.clear()
        return value

    def copy(self, value: Any, subject: str) -> Any:
        """``value``, or a copy of it if it can be changed in place; ``subject`` is what an error calls it."""
        return value if self._is_immutable else copy_value(value, subject)


def _added(descriptor: StateDescriptor) -> str:
    """What errors call a value that is folded in."""
    return f"{descriptor.label}: the value that is added"


class FoldedReducingState(ReducingState[Any]):
    """The values added so far, reduced to one."""

    __slots__ = ("_added", "_cells", "_folded", "_label", "_reduce")

    def __init__(self, scope: StateScope, cells: ElementCells, descriptor: ReducingStateDescriptor) -> None:
        self._cells = cells
        self._folded = _Folded(scope, cells, descriptor.type_info)
        self._label = descriptor.label
        self._added = _added(descriptor)
        self._reduce = descriptor.reduce

    def get(self) -> Any:
        return self._folded.copy(self._cells.read(), self._label)

    def add(self, value: Any) -> None:
        if value is None:
            raise InvalidTypeError(f"{self._added} cannot be None")
        self.absorb(self._folded.copy(value, self._added))

    def clear(self) -> None:
        self._folded.clear()

    def take(self) -> Any:
        """The reduced value, which is removed; None when there is none."""
        return self._folded.take()

    def absorb(self, value: Any) -> None:
        """Folds in what :meth:`take` has given."""
        old = self._folded.live()
        if old is not None:
            value = self._reduce(old, value)
            if value is None:
                raise InvalidTypeError(
                    f"{self._label}: the reduce function returned None, which would be no value: return the value of "
                    "both, or call clear() where there is to be none"
                )
        self._folded.write(value)


class FoldedAggregatingState(AggregatingState[Any, Any]):
    """The values added so far, folded into an accumulator."""

    __slots__ = ("_added", "_cells", "_folded", "_function", "_label")

    def __init__(self, scope: StateScope, cells: ElementCells, descriptor: AggregatingStateDescriptor) -> None:
        self._cells = cells
        self._folded = _Folded(scope, cells, descriptor.type_info)
        self._label = descriptor.label
        self._added = _added(descriptor)
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._cells.read()
        # The result may be the accumulator itself, which user code must not get hold of.
        return None if accumulator is None else self._folded.copy(self._function.get_result(accumulator), self._label)

    def add(self, value: Any) -> None:
        accumulator = self._folded.live()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        accumulator = self._function.add(self._folded.copy(value, self._added), accumulator)
        if accumulator is None:
            raise self._none_returned("add")
        self._folded.write(accumulator)

    def clear(self) -> None:
        self._folded.clear()

    def take(self) -> Any:
        """The accumulator, which is removed; None when there is none."""
        return self._folded.take()

    def absorb(self, accumulator: Any) -> None:
        """Merges what :meth:`take` has given."""
        old = self._folded.live()
        if old is not None:
            accumulator = self._function.merge(old, accumulator)
            if accumulator is None:
                raise self._none_returned("merge")
        self._folded.write(accumulator)

    def _none_returned(self, method: str) -> InvalidTypeError:
        """None would be no accumulator, and what was added before be lost."""
        place = of_function(getattr(self._function, method))
        where = "" if place is None else f" ({place})"
        return InvalidTypeError(
            f"{self._label}: {method} of the aggregate function{where} returned None, which would be no accumulator: "
            "return the accumulator, also where it was changed in place, or call clear() where there is to be none"
        )
