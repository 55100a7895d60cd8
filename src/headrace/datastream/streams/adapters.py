"""Functions of one kind as functions of another: for single records with keyed state, for all records by key.

On a keyed stream the ``open`` of a ``MapFunction``, or its ``initialize_state``, may request state. What is opened
there runs as a ``KeyedProcessFunction``; plain functions cannot request state and need no such thing. Windows of all
records are windows of one key, which their functions do not get.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any, Final

from headrace.common.columns import array_to_values, layout_of
from headrace.common.errors import EvaluationError
from headrace.common.typeinfo import TypeInformation
from headrace.common.types import Row
from headrace.datastream.functions import KeyedProcessFunction, ProcessWindowFunction, RuntimeContext, WindowFunction
from headrace.expressions import Bound, evaluate
from headrace.graph.process_specs import KeyedProcessSpec
from headrace.graph.specs import FilterSpec, FlatMapSpec, FunctionSpec, MapSpec, OperatorSpec
from headrace.operators.checkpointed import CheckpointedFunction
from headrace.operators.collector import results_of
from headrace.operators.functions import has_own, method_of
from headrace.operators.join import find_pairs
from headrace.operators.join.results import Outer, pair_type
from headrace.operators.user_code import record_text
from headrace.state.copying import copier


class Adapter:
    """Opens and closes the function of the user with itself.

    Attributes:
        function: the function.
        method: the name of the method of it that is called.
    """

    method: str

    def __init__(self, function: Any) -> None:
        self.function = function

    def __headrace_adapted__(self, name: str) -> Callable[..., Any]:
        """The method of the function that is called in the method ``name`` of this object."""
        return method_of(self.function, self.method)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._call("open", runtime_context)

    def close(self) -> None:
        self._call("close")

    def _call(self, name: str, *arguments: Any) -> None:
        method = getattr(self.function, name, None)
        if callable(method):
            method(*arguments)


def _one(result: Any, _value: Any) -> Iterable[Any] | None:
    return (result,)


def _unless_none(result: Any, _value: Any) -> Iterable[Any] | None:
    return None if result is None else (result,)


def _many(results: Any, _value: Any) -> Iterable[Any] | None:
    found: Iterable[Any] | None = results
    return found


def _value_if_true(result: Any, value: Any) -> Iterable[Any] | None:
    return (value,) if result else None


class KeyedRecordFunction(Adapter, KeyedProcessFunction):
    """Calls a method for each record, whatever its key, so that the function may ask for keyed state.

    Args:
        function: the function.
        method: the name of the method.
        results: makes the results for a record of what the method has returned, and the record.
    """

    def __init__(self, function: Any, method: str, results: Callable[[Any, Any], Iterable[Any] | None]) -> None:
        super().__init__(function)
        self.method, self._results = method, results
        self._called = method_of(function, method)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return self._results(self._called(value), value)


class CoRecordFunction(Adapter):
    """Calls a method for each record of the first of two streams, and another one for each of the second.

    Args:
        function: the function.
        method: what the names of both methods begin with, before 1 and 2.
        results: as of :class:`KeyedRecordFunction`.
    """

    def __init__(self, function: Any, method: str, results: Callable[[Any, Any], Iterable[Any] | None]) -> None:
        super().__init__(function)
        self._first, self._second = method_of(function, f"{method}1"), method_of(function, f"{method}2")
        self._results = results

    def __headrace_adapted__(self, name: str) -> Callable[..., Any]:
        return self._second if name.endswith("2") else self._first

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self._results(self._first(value), value)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self._results(self._second(value), value)


def co_map(function: Any) -> CoRecordFunction:
    """Calls a ``CoMapFunction``; None is no record."""
    return CoRecordFunction(function, "map", _unless_none)


def co_flat_map(function: Any) -> CoRecordFunction:
    """Calls a ``CoFlatMapFunction``."""
    return CoRecordFunction(function, "flat_map", _many)


class KeylessWindowCall(Adapter, WindowFunction):
    """Calls a method that takes less than a ``WindowFunction`` is given: the key is none of its arguments.

    Args:
        function: the function, or an object with the method.
        method: the name of the method.
        arguments: makes its arguments of a window and its records.
    """

    def __init__(self, function: Any, method: str, arguments: Callable[[Any, Iterable[Any]], tuple[Any, ...]]) -> None:
        super().__init__(function)
        self.method, self._arguments = method, arguments

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = method_of(self.function, self.method)(*self._arguments(window, inputs))
        return results


def window_and_records(window: Any, inputs: Iterable[Any]) -> tuple[Any, Iterable[Any]]:
    """The arguments of ``AllWindowFunction.apply``."""
    return window, inputs


def records_of_both(_window: Any, inputs: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The arguments of ``CoGroupFunction.co_group``: the records of each stream, in the order in which they came."""
    lefts: list[Any] = []
    rights: list[Any] = []
    for is_left, left, right in inputs:
        (lefts if is_left else rights).append(left if is_left else right)
    return lefts, rights


class AllProcess(Adapter, ProcessWindowFunction):
    """Calls a ``ProcessAllWindowFunction``."""

    method = "process"

    def process(
        self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]
    ) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self.function.process(context, elements)
        return results

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        self._call("clear", context)


def with_keyed_state(spec: OperatorSpec, record_type: TypeInformation) -> OperatorSpec:
    """The spec for a stream with keys; another one where its function may ask for state.

    Args:
        spec: the spec for a stream without keys.
        record_type: the type of the records.
    """
    if not isinstance(spec, FunctionSpec | FilterSpec) or type(spec) not in _CALLED:
        return spec
    if not (has_own(spec.function, "open") or isinstance(spec.function, CheckpointedFunction)):
        return spec
    result_type = spec.result_type if isinstance(spec, FunctionSpec) else record_type
    return KeyedProcessSpec(KeyedRecordFunction(spec.function, *_CALLED[type(spec)]), result_type)


_CALLED: Final[dict[type[OperatorSpec], tuple[str, Callable[[Any, Any], Iterable[Any] | None]]]] = {
    MapSpec: ("map", _one),
    FlatMapSpec: ("flat_map", _many),
    FilterSpec: ("filter", _value_if_true),
}
"""By the spec for a stream without keys: the method that is called, and what makes results of what it returns."""


class JoinApply(Adapter, WindowFunction):
    """Calls a ``JoinFunction``, or a function of two records.

    Args:
        function: the function.
        outer: of which streams records without a partner are shown as well.
        types: those of both streams.
    """

    method = "join"

    def __init__(self, function: Any, outer: Outer, types: Sequence[TypeInformation]) -> None:
        super().__init__(function)
        self._outer = outer
        self._copy_left, self._copy_right = map(copier, types)

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        join = method_of(self.function, self.method)
        return (join(left, right) for left, right in self._pairs(window, inputs))

    def _pairs(self, window: Any, inputs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Each record of the left stream with each of the right one."""
        lefts, rights = records_of_both(window, inputs)
        if lefts and rights:
            yield from self._matched(lefts, rights)
        elif self._outer.left and lefts:
            yield from ((left, None) for left in lefts)
        elif self._outer.right:
            yield from ((None, right) for right in rights)

    def _matched(self, lefts: Sequence[Any], rights: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """No two pairs share a record, as the function may change it and return it; the last one has it itself."""
        last_left, last_right = len(lefts) - 1, len(rights) - 1
        for i, left in enumerate(lefts):
            for j, right in enumerate(rights):
                own_left = left if j == last_right else self._copy_left(left)
                yield own_left, right if i == last_left else self._copy_right(right)


class FlatJoinApply(JoinApply):
    """Calls a ``FlatJoinFunction``, or a function of two records that yields."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        join = method_of(self.function, self.method)
        for left, right in self._pairs(window, inputs):
            yield from results_of(join(left, right), self.__headrace_adapted__)


class SelectApply(JoinApply):
    """Computes expressions over the pairs of a window; of very many some at a time.

    Args:
        columns: the expressions.
        types: those of both streams.
        outer: of which streams records without a partner are shown as well.
    """

    def __init__(self, columns: Sequence[Bound], types: Sequence[TypeInformation], outer: Outer) -> None:
        super().__init__(None, outer, types)
        self._columns, self._type = columns, pair_type(*types)

    def _matched(self, lefts: Sequence[Any], rights: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        return product(lefts, rights)

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        pairs = self._pairs(window, inputs)
        while some := [Row(*pair) for pair in islice(pairs, find_pairs.PAIRS)]:
            yield from self._rows(some)

    def _rows(self, pairs: Sequence[Row]) -> Iterator[Row]:
        try:
            computed = evaluate(self._columns, layout_of(self._type).rows_to_columns(pairs))
        except EvaluationError as error:
            error.add_note(f"record: {record_text(pairs[error.row])}")
            raise
        values = (array_to_values(column.type, array) for column, array in zip(self._columns, computed, strict=True))
        return (Row(*fields) for fields in zip(*values, strict=True))
