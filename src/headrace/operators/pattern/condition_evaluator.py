"""Evaluates iterative conditions for the events that are matched at once, one event and one partial match at a time.

A condition over any rows, such as ``col("price") > last("fall").price + 1``, is computed as columns. A condition that
is evaluated often becomes a function of Python objects. Then each part that reads one row alone (``price``, and
``price + 1``) is computed for all rows at once, and one event and one partial match take one comparison of two values,
however far apart their rows are. Aggregates are brought forward from step to step
(:mod:`headrace.operators.pattern.match_values`). Comparisons and logic are the same for Python's numbers and texts
as for Arrow's, and so is the arithmetic of doubles, and of integers as long as results have 64 bits; what is different
is left to columns.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import EvaluationError
from headrace.expressions import Bound, BoundColumn
from headrace.expressions.binding import BoundCall
from headrace.expressions.evaluation import fields_in
from headrace.expressions.functions import FUNCTIONS, Family
from headrace.operators.pattern.event_conditions import Events
from headrace.operators.pattern.found_matches import FoundMatches
from headrace.operators.pattern.iterative_conditions import (
    ConditionResults,
    LaggedCondition,
    RowCondition,
    RowTable,
    Taken,
    is_worthwhile,
)
from headrace.operators.pattern.keyed_events import KeyedEvents
from headrace.operators.pattern.match_values import (
    AggregateOfMatch,
    NoPlainValueError,
    RowOfMatch,
    TakenAggregate,
    ValueOfMatch,
    Variables,
    stepwise_aggregate,
    whole,
)
from headrace.operators.pattern.shared_buffer import Step, steps_of

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Reads = Sequence[Any]
"""The operands of a condition: each is the place of a row, None without one, or the value of an aggregate."""

Test = Callable[[Reads], Any]
"""Gives a value for what is read; None where it has none."""

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
}
_PLAIN: Final = (pa.int64(), pa.float64(), pa.string(), pa.large_string(), pa.bool_())
"""Types whose values are the same objects in Python."""


class ScalarTest:
    """Evaluates a condition for an event and a partial match.

    Args:
        readers: read the values of the condition, in their order.
        test: what is left to be done of it.
    """

    def __init__(self, readers: Sequence[_Reading], test: Test) -> None:
        self._read = [reader.read for reader in readers]
        self._test = test

    def holds(self, place: int, step: Step | None) -> bool:
        """Return whether it is true for an event, by its place, and a partial match, by its last step.

        Raises:
            NoPlainValueError: when only columns give the value.
        """
        try:
            return self._test([read(place, step) for read in self._read]) is True
        except ZeroDivisionError:
            raise NoPlainValueError from None


class _Reading(Protocol):
    """Reads a value of a condition."""

    def read(self, place: int, step: Step | None) -> Any:
        """Read a value for an event, given by its place, and a partial match, given by its last step."""


@dataclass(frozen=True, slots=True)
class _Current:
    """Reads the current row."""

    def read(self, place: int, step: Step | None) -> int | None:
        return place


@dataclass(frozen=True, slots=True)
class _Last:
    """Reads the last row that some states have taken, or one so many before it."""

    takers: Sequence[bool]
    offset: int

    def read(self, place: int, step: Step | None) -> int | None:
        left = self.offset
        while step is not None:
            taker, _, event, step = step
            if self.takers[taker]:
                if not left:
                    found: int = event
                    return found
                left -= 1
        return None


@dataclass(frozen=True, slots=True)
class _First:
    """Reads the first row that some states have taken, or one so many behind it."""

    takers: Sequence[bool]
    offset: int

    def read(self, place: int, step: Step | None) -> int | None:
        found: list[int] = []
        while step is not None:
            taker, _, event, step = step
            if self.takers[taker]:
                found.append(event)
        return found[-1 - self.offset] if self.offset < len(found) else None


def _reader(condition: RowCondition, value: object, stages: Sequence[str], columns: pa.RecordBatch) -> _Reading | None:
    """The reader of a value; None where only columns give it."""
    if isinstance(value, RowOfMatch):
        return None if value.column < 0 or value.physical else _row_reader(condition, value, stages)
    return _aggregate_reader(condition, value, stages, columns) if isinstance(value, AggregateOfMatch) else None


def _row_reader(condition: RowCondition, value: RowOfMatch, stages: Sequence[str]) -> _Reading | None:
    has_current = condition.has_current(value)
    if has_current and not (value.is_first or value.offset):
        return _Current()
    if not value.variables or (has_current and value.is_first):
        return None
    takers = _takers(condition, value, stages)
    return _First(takers, value.offset) if value.is_first else _Last(takers, value.offset - has_current)


def _aggregate_reader(
    condition: RowCondition, value: AggregateOfMatch, stages: Sequence[str], columns: pa.RecordBatch
) -> _Reading | None:
    if len(value.operands) > 1:
        return None
    operands = [operand.column(columns) for operand in value.operands]
    fold = stepwise_aggregate(value, operands[0].type if operands else None)
    if fold is None:
        return None
    values = operands[0].to_pylist() if operands else None
    has_current = bool(value.variables) and condition.has_current(value)
    return TakenAggregate(fold, _takers(condition, value, stages), values, has_current=has_current)


def _takers(condition: RowCondition, value: RowOfMatch | AggregateOfMatch, stages: Sequence[str]) -> Sequence[bool]:
    """For each state whether a value is of its rows."""
    names = condition.names_of(value)
    return [stage in names for stage in stages]


def scalar_test(condition: RowCondition, stages: Sequence[str], columns: pa.RecordBatch) -> ScalarTest | None:
    """Return what evaluates a condition, given all rows by their places; None where only columns do.

    Args:
        condition: the condition.
        stages: the stage of each state of the automaton.
        columns: the columns of all rows; those that were taken before are behind the others, the first one last.
    """
    if condition.expressions.user_code:
        return None
    (expression,) = condition.expressions.expressions
    values = condition.expressions.values
    try:
        readers = [_reader(condition, value, stages, columns) for value in values]
        found = [reader for reader in readers if reader is not None]
        if len(found) < len(readers):
            return None
        test = _Tests(values, columns).of(expression, None)
    except EvaluationError:  # of a row for which it may never be evaluated
        return None
    return None if test is None else ScalarTest(found, test)


class _Tests:
    """Makes tests of bound expressions over the values of a condition.

    Args:
        values: the values.
        columns: the columns of all rows.
    """

    def __init__(self, values: Sequence[ValueOfMatch], columns: pa.RecordBatch) -> None:
        self._values, self._columns = values, columns

    def of(self, expression: Bound, family: Family | None) -> Test | None:
        """The test of an expression, whose values are brought to the type of a family."""
        reads = fields_in(expression)
        has_aggregate = any(isinstance(self._values[read], AggregateOfMatch) for read in reads)
        if len(reads) < 2 and not has_aggregate:
            return self._of_one_row(expression, next(iter(reads), None), family)
        test = self._of_several(expression)
        wanted = None if family is None else family.storage
        if wanted in (None, expression.type.storage_type) or test is None:
            return test
        return _as_number(test, expression.type.storage_type, wanted)

    def _of_several(self, expression: Bound) -> Test | None:
        """The test of an expression over several rows, or over an aggregate."""
        if isinstance(expression, BoundColumn):
            return itemgetter(expression.index)
        if not isinstance(expression, BoundCall):
            return None
        overload = FUNCTIONS[expression.function].overloads[expression.overload]
        families = overload.families(len(expression.arguments)) or ()
        made = [self.of(each, own) for each, own in zip(expression.arguments, families, strict=True)]
        tests = [test for test in made if test is not None]
        return _combined(expression, tests) if len(tests) == len(made) else None

    def _types(self, rows: pa.RecordBatch) -> Iterator[pa.DataType]:
        """The types of the values."""
        for value in self._values:
            assert isinstance(value, RowOfMatch | AggregateOfMatch), "others have no reader"
            yield rows.schema.types[value.column] if isinstance(value, RowOfMatch) else value.type.storage_type

    def _of_one_row(self, expression: Bound, read: int | None, family: Family | None) -> Test | None:
        """The test of an expression over one row, or over none."""
        values = self._with_value(expression, read, self._columns, family)
        absent = self._with_value(expression, None, self._columns.slice(0, 1), family)
        if values is None or absent is None:
            return None
        found: list[Any] = values.to_pylist()
        (nothing,) = absent.to_pylist()
        if read is None:
            return lambda _: nothing

        def test(reads: Reads) -> Any:
            place = reads[read]
            return nothing if place is None else found[place]

        return test

    def _with_value(
        self, expression: Bound, read: int | None, rows: pa.RecordBatch, family: Family | None
    ) -> pa.Array | None:
        """A column of an expression, where one value is that of each row, and the others are null."""
        columns = [
            rows.column(value.column) if isinstance(value, RowOfMatch) and index == read else pa.nulls(len(rows), type_)
            for index, (value, type_) in enumerate(zip(self._values, self._types(rows), strict=True))
        ]
        table = pa.RecordBatch.from_arrays(columns, names=[str(index) for index in range(len(columns))])
        found = expression.column(table)
        found = found if family is None else family.prepared(found)
        return found if found.type in _PLAIN else None


def _combined(call: BoundCall, tests: Sequence[Test]) -> Test | None:
    """The test of a function of several."""
    compare, compute = _COMPARISONS.get(call.function), _ARITHMETIC.get(call.function)
    if compare is not None:
        return _of_two(compare, *tests)
    if compute is not None and pa.types.is_float64(call.type.storage_type):
        return _of_two(compute, *tests)
    if compute is not None and pa.types.is_int64(call.type.storage_type):
        return _of_two(lambda one, other: whole(compute(one, other)), *tests)
    if call.function in ("and", "or"):
        return _logic(*tests, decided=call.function == "or")
    if call.function == "not":
        return _not(*tests)
    return _coalesced(tests) if call.function == "coalesce" else None


def _of_two(function: Callable[[Any, Any], Any], first: Test, second: Test) -> Test:
    def test(reads: Reads) -> Any:
        one = first(reads)
        if one is None:
            return None
        other = second(reads)
        return None if other is None else function(one, other)

    return test


def _logic(first: Test, second: Test, *, decided: bool) -> Test:
    """``AND`` or ``OR`` of three values, which one of them may decide."""

    def test(reads: Reads) -> Any:
        one = first(reads)
        if one is decided:
            return decided
        other = second(reads)
        return other if other is decided or one is not None else None

    return test


def _as_number(test: Test, storage: pa.DataType, wanted: pa.DataType) -> Test | None:
    """The test of a number as one of another type; None where Python does not convert as Arrow does."""
    if pa.types.is_signed_integer(storage) and wanted == pa.int64():
        return test
    if not (pa.types.is_signed_integer(storage) and wanted == pa.float64()):
        return None

    def as_float(reads: Reads) -> Any:
        found = test(reads)
        return None if found is None else float(found)

    return as_float


def _not(negated: Test) -> Test:
    def test(reads: Reads) -> Any:
        found = negated(reads)
        return None if found is None else not found

    return test


def _coalesced(tests: Sequence[Test]) -> Test:
    def test(reads: Reads) -> Any:
        return next((found for found in (each(reads) for each in tests) if found is not None), None)

    return test


class ConditionEvaluator:
    """Evaluates conditions over the rows of all keys that are visited, which are gathered when the first needs them.

    Args:
        keyed: the events of the keys.
        found: the partial matches.
        stages: the stage of each state of the automaton.
        type_: the type of the events.
        events: the events.
        clock: the reading of the clock.
    """

    def __init__(
        self,
        keyed: KeyedEvents,
        found: FoundMatches,
        stages: Sequence[str],
        type_: TypeInformation,
        events: Events,
        clock: int,
    ) -> None:
        self._keyed, self._found, self._stages = keyed, found, stages
        self._type, self._events, self._clock = type_, events, clock
        self._results: dict[RowCondition, ConditionResults] = {}
        self._uses: Counter[RowCondition] = Counter()
        self._tests: dict[RowCondition, ScalarTest | None] = {}

    @cached_property
    def _places(self) -> tuple[Longs, Longs]:
        """The places of all rows, key by key in the order in which they are matched, and the first row of each key."""
        stored, of_stored = self._found.events()
        places, of_keys = self._keyed.rows()
        places, of_keys = np.concatenate([stored, places]), np.concatenate([of_stored, of_keys])
        order = np.argsort(of_keys, kind="stable")
        places, of_keys = places[order], of_keys[order]
        is_first = np.diff(of_keys, prepend=-1) != 0
        return places, np.flatnonzero(is_first)[np.cumsum(is_first) - 1]

    @cached_property
    def _table(self) -> RowTable:
        places, starts = self._places
        return RowTable(layout_of(self._type).array_to_columns(self._events.column(places)), starts, self._clock)

    @cached_property
    def _rows(self) -> dict[int, int]:
        places, _ = self._places
        return dict(zip(places.tolist(), range(len(places)), strict=True))

    def row_of(self, place: int) -> int:
        """The row of an event."""
        return self._rows[place]

    def holds(self, condition: RowCondition, row: int, taken: Taken) -> bool:
        """Evaluate a condition for a row, and those that have been taken."""
        results = self._results.get(condition)
        if results is None:
            results = self._results[condition] = ConditionResults(condition, self._table)
        return results.holds(row, taken)

    @cached_property
    def _columns(self) -> pa.RecordBatch:
        """The columns of all events, by their places."""
        return layout_of(self._type).array_to_columns(self._events.all())

    def _test_of(self, condition: RowCondition) -> ScalarTest | None:
        """The test of a condition for single values; None while too few have been tested for it to pay."""
        self._uses[condition] += 1
        if not is_worthwhile(self._uses[condition], len(self._events.arrived)):
            return None
        made = self._tests[condition] = scalar_test(condition, self._stages, self._columns)
        return made

    def holds_of_match(self, condition: RowCondition, place: int, step: Step | None) -> bool:
        """Evaluate a condition for an event and a partial match, given its last step."""
        test = self._tests[condition] if condition in self._tests else self._test_of(condition)
        if test is not None:
            with suppress(NoPlainValueError):
                return test.holds(place, step)
        rows, stages, names = self._rows, self._stages, condition.names

        def taken(variables: Variables) -> Sequence[int]:
            wanted = {names[number] for number in variables} if variables else names
            found = [rows[event] for taker, _, event, _ in steps_of(step) if stages[taker] in wanted]
            found.reverse()
            return found

        return self.holds(condition, rows[place], taken)

    def lagged(self, condition: LaggedCondition) -> tuple[Longs, Mask]:
        """The places of the events that have arrived and those before them, and of which a condition is true.

        An event that has no other before it satisfies none that reads that one.

        Raises:
            EvaluationError: when there is no value for one of them.
        """
        places, starts = self._places
        rows = np.flatnonzero((places >= 0) & (np.arange(len(places)) > starts))
        return places[rows], condition.condition.holds_for(self._table, rows, condition.shape)

    def holds_before(self, condition: LaggedCondition, place: int) -> bool:
        """Evaluate it for one event, which has another before it."""
        row = np.array([self._rows[place]])
        return bool(condition.condition.holds_for(self._table, row, condition.shape)[0])
