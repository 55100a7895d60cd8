"""Conditions over rows that are anywhere, as functions of Python objects: ``col("price") > last("fall").price + 1``.

What a condition computes of one row alone is computed for all rows at once, as columns: ``price``, and ``price + 1``.
What is left to be done for one event and one partial match is to compare two values, however far apart their rows are.
Comparisons and logic are the same for Python's numbers and texts as for Arrow's, and so is the arithmetic of doubles.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.common.errors import EvaluationError
from headrace.expressions import Bound
from headrace.expressions.binding import BoundCall
from headrace.expressions.evaluation import fields_in
from headrace.expressions.functions import FUNCTIONS, Family
from headrace.operators.pattern.matched_rows import RowOfMatch
from headrace.operators.pattern.matches import Step
from headrace.operators.pattern.row_conditions import RowCondition

Places = Sequence[int | None]
"""The place of the row that each value of a condition reads; None where there is none."""

Test = Callable[[Places], Any]
"""Gives a value for such rows; None where it has none."""

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
}
_PLAIN: Final = (pa.int64(), pa.float64(), pa.string(), pa.large_string(), pa.bool_())
"""Types whose values are the same objects in Python."""


class ScalarTest:
    """Evaluates a condition for an event and a partial match.

    Args:
        condition: the condition.
        stages: the stage of each state of the automaton.
        test: what is left to be done of it.
    """

    def __init__(self, condition: RowCondition, stages: Sequence[str], test: Test) -> None:
        self._readers = [_reader(condition, value, stages) for value in condition.expressions.values]
        self._test = test

    def holds(self, place: int, step: Step | None) -> bool:
        """Return whether it is true for an event, by its place, and a partial match, by its last step."""
        return self._test([reader.place(place, step) for reader in self._readers]) is True


@dataclass(frozen=True, slots=True)
class _Current:
    """Reads the current row."""

    def place(self, place: int, step: Step | None) -> int | None:
        return place


@dataclass(frozen=True, slots=True)
class _Last:
    """Reads the last row that some states have taken, or one so many before it."""

    takers: Sequence[bool]
    offset: int

    def place(self, place: int, step: Step | None) -> int | None:
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

    def place(self, place: int, step: Step | None) -> int | None:
        found: list[int] = []
        while step is not None:
            taker, _, event, step = step
            if self.takers[taker]:
                found.append(event)
        return found[-1 - self.offset] if self.offset < len(found) else None


def _reader(condition: RowCondition, value: object, stages: Sequence[str]) -> _Current | _Last | _First:
    assert isinstance(value, RowOfMatch), "others have no such test"
    if not value.variables:
        return _Current()
    names = condition.names_of(value)
    takers = [stage in names for stage in stages]
    return _First(takers, value.offset) if value.is_first else _Last(takers, value.offset)


def scalar_test(condition: RowCondition, columns: pa.RecordBatch) -> Test | None:
    """Return what is left to be done of a condition, given all rows by their places; None where it is something else.

    Args:
        condition: the condition.
        columns: the columns of all rows; those that were taken before are behind the others, the first one last.
    """
    if condition.expressions.user_code:
        return None
    values: list[RowOfMatch] = []
    for value in condition.expressions.values:
        if not isinstance(value, RowOfMatch) or value.column < 0 or value.physical:
            return None
        if (value.offset or value.is_first) if not value.variables else condition.has_current(value):
            return None
        values.append(value)
    (expression,) = condition.expressions.expressions
    try:
        return _Tests(values, columns).of(expression, None)
    except EvaluationError:  # of a row that nobody has asked for
        return None


class _Tests:
    """Makes tests of bound expressions over the values of a condition.

    Args:
        values: the values.
        columns: the columns of all rows.
    """

    def __init__(self, values: Sequence[RowOfMatch], columns: pa.RecordBatch) -> None:
        self._values, self._columns = values, columns

    def of(self, expression: Bound, family: Family | None) -> Test | None:
        """The test of an expression, whose values are brought to the type of a family."""
        reads = fields_in(expression)
        if len(reads) < 2:
            return self._of_one_row(expression, next(iter(reads), None), family)
        is_prepared = family is None or family.storage in (None, expression.type.storage_type)
        if not isinstance(expression, BoundCall) or not is_prepared:
            return None
        overload = FUNCTIONS[expression.function].overloads[expression.overload]
        families = overload.families(len(expression.arguments)) or ()
        made = [self.of(each, own) for each, own in zip(expression.arguments, families, strict=True)]
        tests = [test for test in made if test is not None]
        return _combined(expression, tests) if len(tests) == len(made) else None

    def _of_one_row(self, expression: Bound, read: int | None, family: Family | None) -> Test | None:
        """That of what is computed of one row, or of none."""
        values = self._with_value(expression, read, self._columns, family)
        absent = self._with_value(expression, None, self._columns.slice(0, 1), family)
        if values is None or absent is None:
            return None
        found: list[Any] = values.to_pylist()
        (nothing,) = absent.to_pylist()
        if read is None:
            return lambda _: nothing

        def test(places: Places) -> Any:
            place = places[read]
            return nothing if place is None else found[place]

        return test

    def _with_value(
        self, expression: Bound, read: int | None, rows: pa.RecordBatch, family: Family | None
    ) -> pa.Array | None:
        """A column of an expression, where one value is that of each row, and the others are null."""
        types = [rows.schema.types[value.column] for value in self._values]
        columns = [
            rows.column(value.column) if index == read else pa.nulls(len(rows), type_)
            for index, (value, type_) in enumerate(zip(self._values, types, strict=True))
        ]
        table = pa.RecordBatch.from_arrays(columns, names=[str(index) for index in range(len(columns))])
        found = expression.column(table)
        found = found if family is None else family.prepared(found)
        return found if found.type in _PLAIN else None


def _combined(call: BoundCall, tests: Sequence[Test]) -> Test | None:
    """The test of a function of several."""
    compare = _COMPARISONS.get(call.function)
    if compare is None and pa.types.is_float64(call.type.storage_type):
        compare = _ARITHMETIC.get(call.function)
    if compare is not None:
        return _of_two(compare, *tests)
    if call.function in ("and", "or"):
        return _logic(*tests, decided=call.function == "or")
    if call.function == "not":
        return _not(*tests)
    return _coalesced(tests) if call.function == "coalesce" else None


def _of_two(function: Callable[[Any, Any], Any], first: Test, second: Test) -> Test:
    def test(places: Places) -> Any:
        one = first(places)
        if one is None:
            return None
        other = second(places)
        return None if other is None else function(one, other)

    return test


def _logic(first: Test, second: Test, *, decided: bool) -> Test:
    """``AND`` or ``OR`` of three values, which one of them may decide."""

    def test(places: Places) -> Any:
        one = first(places)
        if one is decided:
            return decided
        other = second(places)
        return other if other is decided or one is not None else None

    return test


def _not(negated: Test) -> Test:
    def test(places: Places) -> Any:
        found = negated(places)
        return None if found is None else not found

    return test


def _coalesced(tests: Sequence[Test]) -> Test:
    def test(places: Places) -> Any:
        return next((found for found in (each(places) for each in tests) if found is not None), None)

    return test
