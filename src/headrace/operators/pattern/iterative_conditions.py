"""Conditions over columns of the current row and of rows matched before: ``B.price > LAST(B.price, 1)``.

They are the iterative expressions of patterns of streams as well, whose stages are the variables and which are bound to
the type of the events: ``col("price") < last("fall").price``. Such a condition is evaluated for one row and one partial
match at a time. But its value depends only on the distances from the current row to the rows that it reads, and the
same few distances come again and again. So once a condition has been evaluated often enough with some distances, it is
computed with them for all rows at once, as columns.

Where the stages of a pattern directly follow one another, all partial matches in a state read the same row: the last
one that they have taken is the row of the key before the current one. Then the condition is a column over these two
rows, whatever partial matches there are, and for the automaton it is a bit (:func:`with_lags`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import gather
from headrace.common.errors import EvaluationError, InvalidTypeError
from headrace.common.other_names import alike
from headrace.common.typeinfo import TypeInformation, Types
from headrace.expressions import Bound, BoundColumn, Column, Expression, bind, coalesce, lit
from headrace.expressions.binding import Given
from headrace.expressions.stages import StageAggregate, StageField, replaced
from headrace.operators.aggregates import simple, sums
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.operators.pattern.automaton import Action, Automaton, StateType, Transition
from headrace.operators.pattern.conditions import Condition, EventBit, Facts
from headrace.operators.pattern.match_values import (
    AggregateOfMatch,
    MatchExpressions,
    NumberOfMatch,
    RowLists,
    RowOfMatch,
    ShownRow,
    ValueOfMatch,
    Variables,
)

Longs = npt.NDArray[np.int64]

Reach = range | tuple[int, ...]
"""Rows that a value reads, as their distances from the current row, the farthest one first."""

Shape = tuple[Reach, ...]
"""The rows that each value of a condition reads."""

Taken = Callable[[Variables], Sequence[int]]
"""Gives the rows that a partial match has taken for some variables, in order."""

_ONE: Final = 4096
"""To compute a condition for a single row takes about as long as to read so many more rows when there are others."""

_MOST_SHAPES: Final = 256
"""For so many shapes the answers of all rows are kept."""


@dataclass(frozen=True)
class RowTable:
    """Rows of several keys, those of a key one after the other, in the order in which they are matched.

    Attributes:
        columns: the columns of the rows.
        starts: the first row of each row's key.
        clock: the reading of the clock.
    """

    columns: pa.RecordBatch
    starts: Longs
    clock: int = 0


@dataclass(frozen=True, eq=False)
class RowCondition(Condition):
    """A condition over the current row and the rows that a partial match has taken.

    Attributes:
        expressions: the condition, as the only expression.
        variable: the variable to which the current row would be mapped, and whose last row it is then; a negative
            number where it is not looked at as such.
        names: the names of the variables, by number.
    """

    expressions: MatchExpressions
    variable: int
    names: tuple[str, ...] = ()

    @property
    def looks_at_event_alone(self) -> bool:
        return False

    def holds(self, facts: Facts) -> bool:
        return facts.of_rows(self)

    def __str__(self) -> str:
        return str(self.expressions.expressions[0])

    def shape(self, row: int, taken: Taken, low: int) -> Shape:
        """The rows that the condition reads.

        Args:
            row: the current row.
            taken: the rows that the partial match has taken.
            low: the first row of the key.
        """
        return tuple(self._reach(value, row, taken, low) for value in self.expressions.values)

    def _reach(self, value: ValueOfMatch, row: int, taken: Taken, low: int) -> Reach:
        if not isinstance(value, RowOfMatch | AggregateOfMatch):
            return range(0)
        has_current = self.has_current(value)
        if isinstance(value, RowOfMatch) and has_current and not (value.is_first or value.offset or value.physical):
            return range(1)
        rows = taken(value.variables)
        if isinstance(value, AggregateOfMatch):
            return _distances(row, [*rows, row] if has_current else rows)
        count = len(rows) + has_current
        if value.offset >= count:
            return range(0)
        place = value.offset if value.is_first else count - 1 - value.offset
        distance = (row - rows[place] if place < len(rows) else 0) - value.physical
        return range(distance, distance + 1) if distance <= row - low else range(0)

    def has_current(self, value: RowOfMatch | AggregateOfMatch) -> bool:
        """Return whether the current row is the last of those that a value is of."""
        return not value.variables or self.variable in value.variables

    def names_of(self, value: RowOfMatch | AggregateOfMatch) -> Sequence[str]:
        """The names of the variables whose rows a value is of."""
        return [self.names[number] for number in value.variables] if value.variables else self.names

    def holds_for(self, table: RowTable, rows: Longs, shape: Shape) -> npt.NDArray[np.bool_]:
        """A mask of the rows for which it is true, given the distances from each row to the rows that are read.

        Raises:
            EvaluationError: when it has no value for one of them.
        """
        pairs = zip(self.expressions.values, shape, strict=True)
        columns = [_column(value, reach, table, rows) for value, reach in pairs]
        (condition,) = self.expressions.of_values(columns, len(rows))
        return np.asarray(pc.fill_null(condition, False).to_numpy(zero_copy_only=False), np.bool_)


def _column(value: ValueOfMatch, reach: Reach, table: RowTable, rows: Longs) -> pa.Array:
    """A value for each row, whose reach is the same for all of them."""
    if isinstance(value, RowOfMatch):
        column = table.columns.column(value.column)
        return gather(column, rows - reach[0]) if reach else pa.nulls(len(rows), column.type)
    assert not isinstance(value, ShownRow | NumberOfMatch), "conditions have no results"
    if isinstance(value, AggregateOfMatch):
        reached = (rows[:, np.newaxis] - np.array(reach, np.int64)).ravel()
        return value.of_lists(table.columns, RowLists.of(reached, np.full(len(rows), len(reach))))
    return value.of_times(np.full(len(rows), table.clock))


def _distances(row: int, rows: Sequence[int]) -> Reach:
    if not rows:
        return range(0)
    first, last = row - rows[0], row - rows[-1]
    if first - last + 1 == len(rows):
        return range(first, last - 1, -1)
    return tuple(row - each for each in rows)


def is_worthwhile(uses: int, rows: int) -> bool:
    """Return whether a condition has been evaluated so often that it pays to compute it for many rows."""
    return uses * _ONE > rows


class ConditionResults:
    """Evaluates a condition for the rows of a table, and keeps the results that it has for all rows.

    Args:
        condition: the condition.
        table: the rows.
    """

    def __init__(self, condition: RowCondition, table: RowTable) -> None:
        self._condition, self._table = condition, table
        self._starts: list[int] = table.starts.tolist()
        self._uses: dict[Shape, int] = {}
        self._whole: dict[Shape, bytes] = {}

    def holds(self, row: int, taken: Taken) -> bool:
        """Return whether the condition is true for a row and a partial match.

        Args:
            row: the row.
            taken: the rows that the partial match has taken.

        Raises:
            EvaluationError: when it has no value.
        """
        shape = self._condition.shape(row, taken, self._starts[row])
        known = self._whole.get(shape)
        if known is None and self._is_worthwhile(shape):
            known = self._of_all_rows(shape)
        if known is not None and (answer := known[row]) != _UNKNOWN:
            return bool(answer)
        return bool(self._condition.holds_for(self._table, np.array([row]), shape)[0])

    def _is_worthwhile(self, shape: Shape) -> bool:
        uses = self._uses[shape] = self._uses.get(shape, 0) + 1
        cost = len(self._table.starts) * (1 + sum(map(len, shape)))
        return is_worthwhile(uses, cost) and len(self._whole) < _MOST_SHAPES

    def _of_all_rows(self, shape: Shape) -> bytes:
        """The result for each row that has rows of its key at such distances before it."""
        starts = self._table.starts
        farthest = max((distance for reach in shape for distance in reach[:1]), default=0)
        rows = np.flatnonzero(np.arange(len(starts)) - farthest >= starts)
        answers = np.full(len(starts), _UNKNOWN, np.uint8)
        with suppress(EvaluationError):  # of a row for which it may never be evaluated
            answers[rows] = self._condition.holds_for(self._table, rows, shape)
        found = self._whole[shape] = answers.tobytes()
        return found


_UNKNOWN: Final = 2


_AGGREGATES: Final[Mapping[str, Callable[[int], Aggregate]]] = {
    "sum": sums.sum,
    "avg": sums.avg,
    "min": simple.min,
    "max": simple.max,
}
_NO_VARIABLE: Final = -1


def row_condition(expression: Expression, record_type: TypeInformation, stages: tuple[str, ...]) -> RowCondition:
    """A condition over the columns of an event and of those that the partial match has taken.

    Args:
        expression: the expression.
        record_type: the type of the events.
        stages: the names of the stages of the pattern.

    Raises:
        InvalidTypeError: when it does not fit the events, names no stage of the pattern, or is no condition.
    """
    return _Binder(record_type, stages).condition(expression)


class _Binder:
    def __init__(self, record_type: TypeInformation, stages: tuple[str, ...]) -> None:
        self._type, self._stages = record_type, stages
        self._values: dict[ValueOfMatch, int] = {}

    def condition(self, expression: Expression) -> RowCondition:
        """The condition that an expression states."""
        bound = bind(replaced(expression, self._value), self._type)
        if bound.type != Types.BOOLEAN():
            raise InvalidTypeError(
                f"where takes a condition, but {expression!r} is of type {bound.type}: compare it with something"
            )
        return RowCondition(MatchExpressions((*self._values,), (bound,)), _NO_VARIABLE, self._stages)

    def _value(self, part: Expression) -> Expression | None:
        """The replacement for a part of the expression that is a value of rows."""
        if isinstance(part, StageField):
            column = self._column(part, Column(part.key))
            value = RowOfMatch(self._numbers(part, part.stages), column.index, part.is_first, part.offset)
            return self._given(part, value, column.type)
        if isinstance(part, StageAggregate):
            return self._aggregate(part)
        if isinstance(part, Column):
            column = self._column(part, part)
            return self._given(part, RowOfMatch((), column.index), column.type)
        return None

    def _column(self, part: Expression, column: Column) -> BoundColumn:
        try:
            bound = bind(column, self._type)
        except InvalidTypeError as error:
            raise InvalidTypeError(str(error).replace(repr(column), repr(part), 1)) from None
        assert isinstance(bound, BoundColumn), "a column is bound to one"
        return bound

    def _aggregate(self, part: StageAggregate) -> Expression:
        variables = self._numbers(part, part.stages)
        if part.argument is None:
            counted = AggregateOfMatch(variables, (), simple.count(), Types.ROW_NAMED(["0"], [Types.INT()]))
            return self._given(part, counted, Types.LONG())
        operand = bind(part.argument, self._type)
        operand_type = Types.ROW_NAMED(["0"], [operand.type])
        call = _AGGREGATES[part.function](0)
        try:
            found = call.bind(operand_type)
        except InvalidTypeError as error:
            raise InvalidTypeError(f"{part!r}: {error}") from None
        given = self._given(part, AggregateOfMatch(variables, (operand,), call, operand_type), found.type)
        return coalesce(given, lit(0).cast(found.type)) if part.function == "sum" else given

    def _given(self, part: Expression, value: ValueOfMatch, type_: TypeInformation) -> Given:
        index = self._values.setdefault(value, len(self._values))
        bound: Bound = BoundColumn(repr(part), type_, index)
        return Given(bound)

    def _numbers(self, part: Expression, stages: tuple[str, ...]) -> tuple[int, ...]:
        """The numbers of stages; of all of them where none is named."""
        for stage in stages:
            if stage not in self._stages:
                hint = alike(stage, list(self._stages))
                raise InvalidTypeError(f"{part!r}: the pattern has no stage {stage!r}{hint}")
        return tuple(self._stages.index(stage) for stage in stages or self._stages)


_STANDING: Final = (StateType.START, StateType.NORMAL, StateType.PENDING)
"""The kinds of states in which a partial match meets an event, or in which it begins."""

_NOTHING: Final[Reach] = range(0)
_CURRENT: Final[Reach] = range(1)
_BEFORE: Final[Reach] = range(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class LaggedCondition(Condition):
    """A condition over an event and the one of its key before that.

    Attributes:
        condition: the condition.
        shape: the rows that it reads.
    """

    condition: RowCondition
    shape: Shape

    @property
    def looks_back(self) -> bool:
        """Return whether it reads the event before."""
        return any(reach == _BEFORE for reach in self.shape)

    def of_events(self, columns: pa.RecordBatch, clock: int) -> npt.NDArray[np.bool_]:
        """Return whether each of some events satisfies it, where it does not look back.

        Raises:
            EvaluationError: when there is no value for one of them.
        """
        rows = np.arange(columns.num_rows)
        return self.condition.holds_for(RowTable(columns, rows, clock), rows, self.shape)

    def holds(self, facts: Facts) -> bool:
        return facts.of_rows(self)

    def __str__(self) -> str:
        return str(self.condition)


def with_lags(automaton: Automaton) -> Automaton:
    """The same automaton, in which bits stand for iterative expressions wherever these read the same rows."""
    if automaton.preference is not None or not any(isinstance(leaf, RowCondition) for leaf in automaton.leaves()):
        return automaton
    return _Lags(automaton).automaton()


class _Lags:
    """The facts about the events that partial matches in each state have taken.

    Args:
        automaton: the automaton.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._stages = [state.stage for state in automaton.states]
        self._moves: list[tuple[int, int, Transition]] = []
        self._standing = self._reached()
        self._taken = self._taken_stages()
        self._bits: dict[tuple[RowCondition, Shape], int] = {}

    def automaton(self) -> Automaton:
        """The automaton with bits."""
        made = self._automaton.with_transitions(self._with_bits)
        lagged = tuple(LaggedCondition(condition, shape) for condition, shape in self._bits)
        return replace(made, event_conditions=(*self._automaton.event_conditions, *lagged))

    def _reached(self) -> list[int]:
        """The states in which partial matches may be, whose moves are noted; others are passed without an event."""
        reached: set[int] = set()
        waiting = [self._automaton.start]
        while waiting:
            at = waiting.pop()
            if at not in reached and self._automaton.states[at].kind in _STANDING:
                reached.add(at)
                moves = [(at, source, way) for source, way in self._ways(at)]
                self._moves += moves
                waiting += [way.target for _, _, way in moves]
        return sorted(reached)

    def _ways(self, at: int) -> list[tuple[int, Transition]]:
        """The transitions of a partial match in a state that take an event or ignore one, with where they begin."""
        states = self._automaton.states
        ways = [(source, way) for source in self._automaton.proceeding(at) for way in states[source].transitions]
        return [(source, way) for source, way in ways if way.action is not Action.PROCEED]

    def _taken_stages(self) -> list[set[str]]:
        """For each state the stages that may have taken an event before a partial match comes there."""
        taken: list[set[str]] = [set() for _ in self._stages]
        is_done = False
        while not is_done:
            is_done = True
            for at, source, way in self._moves:
                stages = taken[at] | ({self._stages[source]} if way.action is Action.TAKE else set())
                if not stages <= taken[way.target]:
                    taken[way.target] |= stages
                    is_done = False
        return taken

    def _with_bits(self, at: int, way: Transition) -> Transition:
        met_by = self._met_by(at, way)

        def lagged(leaf: Condition) -> Condition:
            if not isinstance(leaf, RowCondition) or not met_by:
                return leaf
            shapes = [self._shape(leaf, standing) for standing in met_by]
            shape = shapes[0]
            if shape is None or any(other != shape for other in shapes):
                return leaf
            index = self._bits.setdefault((leaf, shape), len(self._bits))
            return EventBit(len(self._automaton.event_conditions) + index)

        return replace(way, condition=way.condition.with_leaves(lagged))

    def _met_by(self, at: int, way: Transition) -> list[int]:
        """The states in which partial matches are that meet the condition of a transition.

        They also do when one of their own leads to where the pattern can end without a further event.
        """
        automaton = self._automaton
        met = {standing for standing in self._standing if at in automaton.proceeding(standing)}
        if way.action is Action.PROCEED:
            takes = ((standing, each) for standing, _, each in self._moves if each.action is Action.TAKE)
            met |= {standing for standing, each in takes if at in automaton.proceeding(each.target)}
        return sorted(met)

    def _shape(self, condition: RowCondition, at: int) -> Shape | None:
        """The rows that a condition reads for all partial matches in a state; None where they differ."""
        shape: list[Reach] = []
        for value in condition.expressions.values:
            reach = self._reach(condition, value, at)
            if reach is None:
                return None
            shape.append(reach)
        return tuple(shape)

    def _reach(self, condition: RowCondition, value: ValueOfMatch, at: int) -> Reach | None:
        if not isinstance(value, RowOfMatch | AggregateOfMatch):
            return _NOTHING
        names, has_current = {*condition.names_of(value)}, condition.has_current(value)
        has_taken = bool(names & self._taken[at])
        if isinstance(value, RowOfMatch):
            taken_by = names if has_taken else set()
            return None if value.physical else self._reach_of_row(value, at, taken_by, has_current=has_current)
        return None if has_taken else _CURRENT if has_current else _NOTHING

    def _reach_of_row(self, value: RowOfMatch, at: int, taken_by: set[str], *, has_current: bool) -> Reach | None:
        back = value.offset - has_current
        if not taken_by:
            return _CURRENT if has_current and not value.offset else _NOTHING
        if value.is_first:
            return _BEFORE if not value.offset and self._is_before(at, taken_by, is_only=True) else None
        if back < 0:
            return _CURRENT
        return _BEFORE if not back and self._is_before(at, taken_by, is_only=False) else None

    def _is_before(self, at: int, names: set[str], *, is_only: bool) -> bool:
        """Return whether some stages have taken the event before the current one; whether it is their only one."""
        for standing, source, way in self._moves:
            if way.target != at:
                continue
            if way.action is Action.IGNORE:
                if self._automaton.states[standing].kind is StateType.START:
                    continue  # a match begins with the event that it takes
                return False
            if self._stages[source] not in names or (is_only and names & self._taken[standing]):
                return False
        return True
