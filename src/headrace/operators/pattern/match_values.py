"""Values of the rows of a match: ``LAST(B.price, 1)``, ``AVG(B.price)``, and expressions over such values.

Measures are computed for all matches of a batch at once: the rows are gathered, one column for each of these values,
and the expressions are evaluated over these columns. Conditions that look at rows matched before are the same
expressions, over the rows of partial matches. Of one partial match, aggregates are brought forward from step to step.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, gather
from headrace.expressions.evaluation import Bound, BoundColumn, evaluate, user_code_in
from headrace.operators.aggregates.aggregate import Aggregate, BindableAggregate
from headrace.operators.aggregates.aggregator import AggregatorList, BoundAggregate, DerivedColumn, GroupedRows, Input
from headrace.operators.aggregates.calls.nothing import accumulators_of_nothing
from headrace.operators.base import UserCode
from headrace.operators.pattern.shared_buffer import Step
from headrace.state.runs.grouping import Groups, Segments
from headrace.state.runs.layout import heads_of, rows_of_ranges

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation


Longs = npt.NDArray[np.int64]

_MICROS: Final = 1000

_MOST_ROWS: Final = 1 << 20
"""The most rows of lists that share rows that are gathered at a time."""

Variables = tuple[int, ...]
"""Variables by number; none stands for all of them."""


@dataclass(frozen=True)
class RowLists:
    """A list of rows for each of some results.

    Attributes:
        rows: the rows of all lists; those of a list follow one another, and lists may share rows.
        starts: the place in ``rows`` at which each list starts.
        counts: the length of each list.
    """

    rows: Longs
    starts: Longs
    counts: Longs

    @staticmethod
    def of(rows: Longs, counts: Longs) -> RowLists:
        """The lists of some lengths that follow one another in ``rows``."""
        return RowLists(rows, np.cumsum(counts) - counts, counts)

    @property
    def follow_one_another(self) -> bool:
        """True if the lists have no rows in common, and none is between them."""
        return len(self.rows) == self.counts.sum() and bool((self.starts == heads_of(self.counts)).all())

    def slice(self, start: int, stop: int) -> RowLists:
        """Some of the lists, so that they follow one another."""
        starts, counts = self.starts[start:stop], self.counts[start:stop]
        return RowLists.of(self.rows[rows_of_ranges(starts, counts)], counts)


@dataclass(frozen=True)
class Extents:
    """The rows of each result, as places among the rows of all matches.

    Attributes:
        lows: the first row that can be looked at, of those before the match.
        starts: the first row of the match.
        stops: the row behind the last one of the result.
        ends: the row behind the last one of the match.
    """

    lows: Longs
    starts: Longs
    stops: Longs
    ends: Longs


@dataclass
class MatchedRows:
    """The rows of some matches, in the order in which they were matched, and the results that are made of them.

    Attributes:
        events: the columns of the rows; there may be others among them.
        rows: the rows of all matches, match after match, each with the rows before it that are looked at.
        variables: the variable that each of these is mapped to; -1 for a row before the match.
        extents: the rows of each result.
        shown: the row of each result: the row itself, or the last one of the match.
        times: the timestamp of each result, in milliseconds.
        clock: the reading of the clock.
        numbers: the number of the match of each result; None where they are not counted.
        names: the names of the variables.
    """

    events: pa.RecordBatch
    rows: Longs
    variables: Longs
    extents: Extents
    shown: Longs
    times: Longs
    clock: int
    numbers: Longs | None = None
    names: Sequence[str] = ()
    _places: dict[tuple[Variables, bool], RowLists] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.shown)

    def places(self, variables: Variables, *, is_final: bool = False) -> RowLists:
        """The places of the rows that are mapped to some variables, as far as a result reaches, or in the match."""
        key = variables, is_final
        if key not in self._places:
            self._places[key] = self._new_places(variables, self.extents.ends if is_final else self.extents.stops)
        return self._places[key]

    def _new_places(self, variables: Variables, stops: Longs) -> RowLists:
        starts = self.extents.starts
        if not variables:
            return RowLists(np.arange(len(self.rows)), starts, stops - starts)
        is_chosen = np.isin(self.variables, variables)
        before = np.concatenate([[0], np.cumsum(is_chosen)])
        return RowLists(np.flatnonzero(is_chosen), before[starts], before[stops] - before[starts])

    def of(self, variables: Variables, *, is_final: bool = False) -> RowLists:
        """The rows that are mapped to some variables, as far as a result reaches, or in the match."""
        lists = self.places(variables, is_final=is_final)
        return RowLists(self.rows[lists.rows], lists.starts, lists.counts)


CLASSIFIER: Final = -1
"""Stands for the name of the variable that a row is mapped to, where otherwise a column stands."""


@dataclass(frozen=True, slots=True)
class RowOfMatch:
    """A column of one of the rows that are mapped to some variables: NULL when there is no such row.

    Attributes:
        variables: the variables.
        column: the column, or :data:`CLASSIFIER`.
        is_first: whether rows are counted from the first one on, or from the last one back.
        offset: the number of rows to go.
        physical: how many rows further on in the order of all rows, or back, the row is then.
        is_final: whether all rows of the match count, though the result stands in the midst of it.
    """

    variables: Variables
    column: int
    is_first: bool = False
    offset: int = 0
    physical: int = 0
    is_final: bool = False

    def compute(self, matched: MatchedRows) -> pa.Array:
        """The value of each result."""
        lists = matched.places(self.variables, is_final=self.is_final)
        wanted = lists.starts + (self.offset if self.is_first else lists.counts - 1 - self.offset)
        is_there = lists.counts > self.offset
        places = np.zeros(len(wanted), np.int64)
        places[is_there] = lists.rows[wanted[is_there]]
        if self.physical:
            places += self.physical
            is_there = is_there & (places >= matched.extents.lows) & (places < matched.extents.ends)
        return self._values(matched, places, is_there)

    def _values(self, matched: MatchedRows, places: Longs, is_there: npt.NDArray[np.bool_]) -> pa.Array:
        if self.column == CLASSIFIER:
            values, rows = pa.array(matched.names, pa.string()), matched.variables
            is_there = is_there & (rows[np.where(is_there, places, 0)] >= 0) if is_there.any() else is_there
        else:
            values, rows = matched.events.column(self.column), matched.rows
        if is_there.all():
            return gather(values, rows[places])
        chosen = np.zeros(len(places), np.int64)
        chosen[is_there] = rows[places[is_there]]
        return values.take(pa.array(chosen, mask=~is_there)) if is_there.any() else pa.nulls(len(chosen), values.type)


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A column of the row of a result: the row itself, or the last one of the match.

    Attributes:
        column: the column.
    """

    column: int

    def compute(self, matched: MatchedRows) -> pa.Array:
        """The value of each result."""
        return gather(matched.events.column(self.column), matched.shown)


@dataclass(frozen=True, slots=True)
class NumberOfMatch:
    """The number of the match among those of its partition, from 1 on."""

    def compute(self, matched: MatchedRows) -> pa.Array:
        """The value of each result."""
        assert matched.numbers is not None, "matches are counted where a value asks for it"
        return pa.array(matched.numbers)


@dataclass(frozen=True, slots=True)
class TimeOfMatch:
    """The timestamp of the match, or the time of the clock when it was found.

    Attributes:
        is_clock: whether it is the time of the clock.
        is_instant: whether it is a point in time, or one of the day and the hour without a time zone.
    """

    is_clock: bool
    is_instant: bool = True

    def compute(self, matched: MatchedRows) -> pa.Array:
        """The value of each result."""
        return self.of_times(np.full(len(matched), matched.clock) if self.is_clock else matched.times)

    def of_times(self, times: Longs) -> pa.Array:
        """The values of times in milliseconds."""
        return pa.array(times * _MICROS, pa.int64()).cast(pa.timestamp("us", "UTC" if self.is_instant else None))


@dataclass(frozen=True)
class AggregateOfMatch:
    """An aggregate over the rows that are mapped to some variables.

    Attributes:
        variables: the variables.
        operands: the operands, over the columns of a row.
        call: the aggregate, over the columns of the operands.
        operand_type: the type of the rows of these columns.
        is_final: whether all rows of the match count, though the result stands in the midst of it.
    """

    variables: Variables
    operands: tuple[Bound, ...]
    call: BindableAggregate
    operand_type: TypeInformation
    is_final: bool = False

    @cached_property
    def _bound(self) -> BoundAggregate:
        return self.call.bind(self.operand_type)

    @cached_property
    def _aggregators(self) -> AggregatorList:
        return AggregatorList(tuple(dict.fromkeys(self._bound.aggregators)))

    @property
    def type(self) -> TypeInformation:
        """The type of the value."""
        return self._bound.type

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The callers of user functions."""
        called = tuple(each for operand in self.operands for each in user_code_in(operand))
        return (*called, *self._aggregators.user_code)

    def compute(self, matched: MatchedRows) -> pa.Array:
        """The value of each result."""
        lists = matched.of(self.variables, is_final=self.is_final)
        if lists.follow_one_another:
            return self.of_lists(matched.events, lists)
        if not self.is_final:
            return self._of_shared_lists(matched.events, lists)
        _, firsts, owners = np.unique(matched.extents.starts, return_index=True, return_inverse=True)
        of_matches = RowLists(lists.rows, lists.starts[firsts], lists.counts[firsts])
        return gather(self._of_shared_lists(matched.events, of_matches), owners)

    def _of_shared_lists(self, events: pa.RecordBatch, lists: RowLists) -> pa.Array:
        """The value of each list of rows, of which others may have the same ones; so many rows at a time."""
        made, start = [], 0
        totals = np.cumsum(lists.counts)
        while start < len(totals):
            reached = totals[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(totals, reached + _MOST_ROWS, "right")))
            made.append(self.of_lists(events, lists.slice(start, stop)))
            start = stop
        return concat(made)

    def of_lists(self, events: pa.RecordBatch, lists: RowLists) -> pa.Array:
        """The value of each list of rows; the lists follow one another."""
        is_there = lists.counts > 0
        values = self._values(self._accumulated(events, lists.rows, lists.starts[is_there]))
        if is_there.all():
            return values
        of_nothing = self._values(accumulators_of_nothing(self._aggregators, self.operand_type, 1))
        return gather(pa.concat_arrays([values, of_nothing]), np.where(is_there, np.cumsum(is_there) - 1, len(values)))

    def _values(self, accumulators: list[pa.Array]) -> pa.Array:
        results = self._aggregators.results(accumulators)
        made = self._bound.emit([results[one] for one in self._bound.aggregators])
        storage = self._bound.type.storage_type
        return made if made.type == storage else made.cast(storage)

    def _accumulated(self, events: pa.RecordBatch, rows: Longs, starts: Longs) -> list[pa.Array]:
        columns = [_of_rows(operand, events, rows) for operand in self.operands]
        table = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])
        inputs: dict[Input, pa.Array] = {}
        for source in self._aggregators.inputs:
            if isinstance(source, DerivedColumn):
                inputs[source] = source.of(table)
            elif isinstance(source, int):
                inputs[source] = columns[source]
        groups = Groups(np.arange(len(rows)), Segments(starts, len(rows)))
        return self._aggregators.accumulate(GroupedRows(inputs, np.arange(len(rows)), groups))


def _of_rows(expression: Bound, events: pa.RecordBatch, rows: Longs) -> pa.Array:
    """The values of an expression in some rows, computed once for each."""
    if isinstance(expression, BoundColumn):
        return gather(events.column(expression.index), rows)
    distinct, places = np.unique(rows, return_inverse=True)
    return gather(expression.column(events.take(pa.array(distinct))), places)


ValueOfMatch = RowOfMatch | ShownRow | NumberOfMatch | TimeOfMatch | AggregateOfMatch


@dataclass(frozen=True)
class MatchExpressions:
    """Expressions over values of matches.

    Attributes:
        values: the values.
        expressions: the expressions, over a column for each of the values.
        all_rows: whether there is a result for each row of a match, or one for the match.
        with_empty: whether there is a result for a match without rows.
    """

    values: tuple[ValueOfMatch, ...]
    expressions: tuple[Bound, ...]
    all_rows: bool = False
    with_empty: bool = True

    @property
    def are_counted(self) -> bool:
        """True if the matches of a partition have to be counted."""
        return any(isinstance(value, NumberOfMatch) for value in self.values)

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The callers of user functions."""
        aggregates = (value for value in self.values if isinstance(value, AggregateOfMatch))
        called = (each for expression in self.expressions for each in user_code_in(expression))
        return (*called, *(each for aggregate in aggregates for each in aggregate.user_code))

    def evaluate(self, matched: MatchedRows) -> list[pa.Array]:
        """A column for each expression, with a value for each result.

        Raises:
            EvaluationError: when a result has no value.
        """
        return self.of_values([value.compute(matched) for value in self.values], len(matched))

    def of_values(self, columns: list[pa.Array], count: int) -> list[pa.Array]:
        """A column for each expression, given those of the values."""
        columns = columns or [pa.nulls(count)]
        names = [str(number) for number in range(len(columns))]
        return evaluate(self.expressions, pa.RecordBatch.from_arrays(columns, names=names))


class NoPlainValueError(Exception):
    """A value is none that Python's objects have as columns do: only columns give the value, or fail."""


class StepwiseAggregate(ABC):
    """An aggregate of values that come one by one."""

    @property
    def start(self) -> Any:
        """The accumulator before the first value."""
        return None

    @abstractmethod
    def added(self, known: Any, value: Any) -> Any:
        """A new accumulator with one more value, which is not null; the given one stays as it is."""

    def result(self, known: Any) -> Any:
        """The aggregate of these values; None for null."""
        return known


class _Count(StepwiseAggregate):
    @property
    def start(self) -> int:
        return 0

    def added(self, known: int, value: Any) -> int:
        return known + 1


class _SumOfIntegers(StepwiseAggregate):
    def added(self, known: int | None, value: int) -> int:
        return value if known is None else known + value

    def result(self, known: int | None) -> int | None:
        return known if known is None else whole(known)


class _SumOfFloats(StepwiseAggregate):
    """Keeps doubles whose exact sum is that of the values (J. R. Shewchuk's partials)."""

    def added(self, known: tuple[float, ...] | None, value: float) -> tuple[float, ...]:
        if not -_LARGEST < value < _LARGEST:
            raise NoPlainValueError
        partials = []
        for other in known or ():
            large, small = (value, other) if abs(value) >= abs(other) else (other, value)
            value = large + small
            if rest := small - (value - large):
                partials.append(rest)
        return (*partials, value)

    def result(self, known: tuple[float, ...] | None) -> float | None:
        return known if known is None else math.fsum(known)


@dataclass(frozen=True, slots=True)
class _Average(StepwiseAggregate):
    total: StepwiseAggregate

    @property
    def start(self) -> Any:
        return 0, self.total.start

    def added(self, known: Any, value: Any) -> Any:
        count, total = known
        return count + 1, self.total.added(total, value)

    def result(self, known: Any) -> float | None:
        count, total = known
        return float(self.total.result(total)) / count if count else None


@dataclass(frozen=True, slots=True)
class _Best(StepwiseAggregate):
    choose: Callable[[Any, Any], Any]

    def added(self, known: Any, value: Any) -> Any:
        if math.isnan(value):
            raise NoPlainValueError
        return value if known is None else self.choose(known, value)


_LARGEST: Final = 2.0**960
"""Sums of larger doubles may leave the range of doubles on the way."""


def whole(value: int) -> int:
    """An integer, which has to fit into 64 bits.

    Raises:
        NoPlainValueError: when it does not.
    """
    if not -(1 << 63) <= value < 1 << 63:
        raise NoPlainValueError
    return value


def stepwise_aggregate(value: AggregateOfMatch, operand: pa.DataType | None) -> StepwiseAggregate | None:
    """The way to bring an aggregate forward step by step; None where only columns give it.

    Args:
        value: the aggregate.
        operand: the type of what it is of; None where rows are counted.
    """
    call = value.call
    if not isinstance(call, Aggregate):
        return None
    if operand is None:
        return _Count() if call.function == "count" else None
    is_whole, is_float = pa.types.is_signed_integer(operand), pa.types.is_floating(operand)
    if not (is_whole or is_float):
        return None
    total = _SumOfIntegers() if is_whole else _SumOfFloats()
    extremes = {"min": _Best(min), "max": _Best(max)}
    folds: Mapping[str, StepwiseAggregate] = {"count": _Count(), "sum": total, "avg": _Average(total), **extremes}
    return folds.get(call.function)


class TakenAggregate:
    """An aggregate of what partial matches have taken, by their last steps.

    Args:
        fold: how it is brought forward.
        takers: for each state whether its events count.
        operands: the operand of each event, by its place; None where rows are counted.
        has_current: whether the current row counts as well.
    """

    def __init__(
        self, fold: StepwiseAggregate, takers: Sequence[bool], operands: Sequence[Any] | None, *, has_current: bool
    ) -> None:
        self._fold, self._takers, self._operands, self._has_current = fold, takers, operands, has_current
        self._known: dict[int, tuple[Step, Any]] = {}
        """By the identity of a step: the step, which keeps that from being another's, and what is known there."""

    def read(self, place: int, step: Step | None) -> Any:
        """The value for an event, by its place, and a partial match, by its last step.

        Raises:
            NoPlainValueError: when only columns give it.
        """
        found = self._at(step)
        return self._fold.result(self._with(found, place) if self._has_current else found)

    def _at(self, step: Step | None) -> Any:
        known, takers = self._known, self._takers
        new: list[Step] = []
        while step is not None and id(step) not in known:
            new.append(step)
            step = step[3]
        found = self._fold.start if step is None else known[id(step)][1]
        for each in reversed(new):
            if takers[each[0]]:
                found = self._with(found, each[2])
            known[id(each)] = each, found
        return found

    def _with(self, found: Any, place: int) -> Any:
        if self._operands is None:
            return self._fold.added(found, None)
        value = self._operands[place]
        return found if value is None else self._fold.added(found, value)
