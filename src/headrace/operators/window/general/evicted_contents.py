"""What windows with an evictor hold, and what their functions see of the elements that it leaves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import Types
from headrace.operators.functions import method_of
from headrace.operators.user_code import check_none
from headrace.operators.window.general.contents import KeyedContents, all_of
from headrace.operators.window.stores import CONTENTS
from headrace.state.descriptors import ListStateDescriptor
from headrace.windowing.evictors import TimestampedValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.common.function_protocols import SupportsAggregate
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.window.general.trigger_context import OperatorTime
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.protocols import KeyedStates
    from headrace.state.renamed_fields import RenamedFields
    from headrace.windowing.definition import WindowFunctions
    from headrace.windowing.evictors import Evictor

    Folding = Callable[[Sequence[Any]], Sequence[Any]]


class EvictedContents(KeyedContents):
    """All elements with their timestamps, some of which an evictor removes when they are shown.

    Args:
        keyed: the state.
        kind: what the windows are.
        type_: the type of the elements.
        evictor: the evictor.
        time: what the evictor sees.
        fold: what the window function sees of the elements that are left; None, and it is not called.
        renamed: which fields of the elements have other names than in what is stored.
    """

    def __init__(
        self,
        keyed: KeyedStates,
        kind: str,
        type_: TypeInformation,
        evictor: Evictor[Any, Any],
        time: OperatorTime,
        fold: Folding,
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
        return self._fold([element.value for element in self._left])

    def was_shown(self, namespace: GivenNamespace, window: Any) -> None:
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


def folding(functions: WindowFunctions, type_: TypeInformation) -> Folding:
    """What a window function sees of elements of a type: what other functions make of them, or themselves."""
    if functions.reduce_function is not None:
        return _reducing(functions.reduce_function, type_)
    return all_of if functions.aggregate_function is None else _aggregating(functions.aggregate_function)


def _reducing(function: Any, type_: TypeInformation) -> Folding:
    """What a ``ReduceFunction`` makes of elements, which are of a type; nothing of none."""
    combine = method_of(function, "reduce")

    def fold(elements: Sequence[Any]) -> Sequence[Any]:
        return (reduce(checked, elements),) if elements else ()

    def checked(value1: Any, value2: Any) -> Any:
        result = combine(value1, value2)
        if result is None:
            check_none(type_, "reduce", combine)
        return result

    return fold


def _aggregating(function: SupportsAggregate[Any, Any, Any]) -> Folding:
    """What an ``AggregateFunction`` makes of elements, in a tuple; of none as well."""

    def fold(elements: Sequence[Any]) -> Sequence[Any]:
        accumulator = function.create_accumulator()
        for element in elements:
            accumulator = function.add(element, accumulator)
        return (function.get_result(accumulator),)

    return fold
