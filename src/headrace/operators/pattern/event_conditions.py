"""Events that are matched at once, and what conditions that look at one event alone say of them.

The automaton identifies an event by its place: a number from 0 on for one that has arrived, a negative one for one that
partial matches had taken before. So events that are in no match never become Python objects, and are stored as columns.

Expressions are computed as columns. Functions that decide where matches begin are called in one pass over the events;
others when a partial match needs them, once for an event, however many partial matches there are. A condition that
fails for an event is unknown of it: if anything depends on it, the automaton evaluates it, and fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import concat
from headrace.common.batch import Batch
from headrace.common.columns import array_to_values
from headrace.common.errors import EvaluationError
from headrace.common.typeinfo import TypeInformation
from headrace.expressions import Bound, Expression, bind
from headrace.operators.base import UserCode
from headrace.operators.pattern.conditions import (
    Always,
    And,
    Condition,
    EventCall,
    EventExpression,
    EventFacts,
    EventLeaf,
    Facts,
    Not,
    Or,
)
from headrace.operators.pattern.iterative_conditions import LaggedCondition
from headrace.operators.stateless import user_code_of
from headrace.operators.user_code import is_interruption

Longs = npt.NDArray[np.int64]

_BLOCK: Final = 1 << 8
"""The number of events that become Python objects together when one of them is looked at."""


class Events:
    """Events by their places.

    Attributes:
        taken: those that partial matches had taken, as one column.

    Args:
        arrived: those that have arrived.
        taken: see above; a caller that does not have them yet sets them before one is evaluated.
    """

    def __init__(self, arrived: Batch, taken: pa.Array) -> None:
        self._arrived = arrived
        self.taken = taken
        self._blocks: dict[int, list[Any]] = {}

    @property
    def arrived(self) -> Batch:
        """The events that have arrived."""
        return self._arrived

    def value(self, place: int) -> Any:
        """An event as a Python object, the same one each time."""
        block, row = place >> 8, place & (_BLOCK - 1)
        values = self._blocks.get(block)
        if values is None:
            values = self._blocks[block] = self._values_of(block)
        return values[row]

    def _values_of(self, block: int) -> list[Any]:
        if block >= 0:
            return self._arrived.slice(block * _BLOCK, min((block + 1) * _BLOCK, len(self._arrived))).rows
        # Block -1 has the places -256 to -1, where -1 is the first event that was taken.
        first = (-block - 1) * _BLOCK
        values = array_to_values(self._arrived.type, self.taken.slice(first, _BLOCK))
        return [*[None] * (_BLOCK - len(values)), *reversed(values)]

    def reader(self, *, is_for_all: bool) -> Callable[[int], Any]:
        """Return what gives an event as a Python object, to a caller that looks at nearly all of them, or at few."""
        if not is_for_all:
            return self.value
        taken = array_to_values(self._arrived.type, self.taken)
        return [*self._arrived.rows, *reversed(taken)].__getitem__

    def values(self, places: Iterable[int]) -> dict[int, Any]:
        """Events as Python objects, by their places; those that are not yet are made together."""
        wanted = dict.fromkeys(places)
        missing = [place for place in wanted if place >> 8 not in self._blocks]
        if missing:
            made = self.column(np.array(missing, np.int64))
            wanted.update(zip(missing, array_to_values(self._arrived.type, made), strict=True))
        for place in wanted.keys() - set(missing):
            wanted[place] = self.value(place)
        return wanted

    def all(self) -> pa.Array:
        """All events as one column, in which a place is the index of an element as in Python's lists."""
        return self.column(np.concatenate([np.arange(len(self._arrived)), np.arange(-len(self.taken), 0)]))

    def column(self, places: Longs) -> pa.Array:
        """Events as one column."""
        is_taken = places < 0
        taken = self.taken.take(pa.array(-1 - places[is_taken]))
        if is_taken.all():
            return taken
        arrived = self._arrived.take(places[~is_taken]).as_array()
        if not is_taken.any():
            return arrived
        order = np.empty(len(places), np.int64)
        order[np.flatnonzero(is_taken)] = np.arange(len(taken))
        order[np.flatnonzero(~is_taken)] = len(taken) + np.arange(len(arrived))
        return concat([taken, arrived]).take(pa.array(order))


Mask = npt.NDArray[np.bool_]
Holds = npt.NDArray[Any]
"""The conditions that events satisfy, as bits."""

KnownColumns = dict[str, Mask]
"""Columns of conditions for one batch, by their texts: patterns that have a condition in common compute it once."""

_TYPES_OF_BITS: Final[Sequence[tuple[int, Any]]] = ((8, np.uint8), (16, np.uint16), (62, np.int64))
"""NumPy's integers by the largest number of conditions that are bits of one."""


class OrderedRows(Protocol):
    """Events of keys in the order in which they are matched."""

    def lagged(self, condition: LaggedCondition) -> tuple[Longs, Mask]:
        """The places of the events that have arrived and have others before them, and whether each satisfies it."""

    def holds_before(self, condition: LaggedCondition, place: int) -> bool:
        """Return whether an event that has another before it satisfies a condition."""


class EventConditions:
    """The event conditions of an automaton.

    Attributes:
        user_code: the callers of functions of the user in expressions.

    Args:
        conditions: the conditions; each is a bit.
        of_start: those that decide whether an event begins a match, as bits.
        type_: the type of the events.
        clock: the clock of conditions.
    """

    def __init__(
        self, conditions: Sequence[Condition], of_start: int, type_: TypeInformation, clock: Callable[[], int]
    ) -> None:
        self.conditions = conditions
        self.of_start = of_start
        self.clock = clock
        leaves = [leaf for condition in conditions for leaf in condition.leaves()]
        self._by_leaf = {leaf: _bound(leaf.expression, type_) for leaf in leaves if isinstance(leaf, EventExpression)}
        self.are_columns = [is_column(condition) for condition in conditions]
        self.user_code: tuple[UserCode, ...] = user_code_of([*self._by_leaf.values()])
        self.texts = [str(condition) if self._is_known_by_text(condition) else None for condition in conditions]

    def _is_known_by_text(self, condition: Condition) -> bool:
        """Return whether conditions with the same text are true of the same events."""
        return not self.user_code and all(
            isinstance(leaf, EventExpression) and isinstance(leaf.expression, Expression) for leaf in condition.leaves()
        )

    def evaluate(self, batch: Batch, events: Events, known: KnownColumns) -> EvaluatedEvents:
        """Return what is known of the events of a batch before they meet partial matches.

        Args:
            batch: the events.
            events: the same, by their places.
            known: the columns that have been computed for the batch; it is added to.
        """
        return EvaluatedEvents(self, batch, events, known)

    def column(self, condition: Condition, batch: Batch) -> Mask:
        """Return whether each event of a batch satisfies a condition of expressions.

        Raises:
            EvaluationError: when an expression has no value for one of them.
        """
        match condition:
            case EventExpression():
                found = pc.fill_null(self._by_leaf[condition].column(batch.columns), False)
                return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)
            case And(first, second):
                return self.column(first, batch) & self.column(second, batch)
            case Or(first, second):
                return self.column(first, batch) | self.column(second, batch)
            case Not(negated):
                return ~self.column(negated, batch)
            case LaggedCondition():
                return condition.of_events(batch.columns, self.clock())
        return np.ones(len(batch), np.bool_)

    def facts(self, event: Any, record: Callable[[], pa.RecordBatch]) -> Facts:
        """Evaluates conditions for one event, which ``record`` gives as a batch of columns."""
        return _OneEvent(event, record, self._by_leaf, self.clock)


class _OneEvent(EventFacts):
    __slots__ = ("_by_leaf", "_clock", "_record")

    def __init__(
        self,
        event: Any,
        record: Callable[[], pa.RecordBatch],
        by_leaf: Mapping[EventExpression, Bound],
        clock: Callable[[], int],
    ) -> None:
        super().__init__(event)
        self._record, self._by_leaf, self._clock = record, by_leaf, clock

    def leaf(self, condition: EventLeaf) -> bool:
        if isinstance(condition, EventExpression):
            return bool(self._by_leaf[condition].column(self._record())[0].as_py())
        return super().leaf(condition)

    def of_rows(self, condition: Condition) -> bool:
        assert isinstance(condition, LaggedCondition), "others look at events that were taken"
        return bool(condition.of_events(self._record(), self._clock())[0])


def is_column(condition: Condition) -> bool:
    """Return whether a condition is made of expressions, so that it can be computed as a column."""
    return all(isinstance(leaf, EventExpression | LaggedCondition | Always) for leaf in condition.leaves())


def _bound(expression: Expression | Bound, type_: TypeInformation) -> Bound:
    return expression if isinstance(expression, Bound) else bind(expression, type_)


class EvaluatedEvents:
    """The facts about the events of a batch.

    Attributes:
        holds: for each event the conditions that it satisfies, as bits, as far as they are known.
        lazy: the conditions that are not known of all events, as bits.
        looking_back: those that are known when the events of keys are in order, as bits.

    Args:
        conditions: the conditions.
        batch: the events.
        events: the same, by their places.
        known: the columns that have been computed for the batch; it is added to.
    """

    def __init__(self, conditions: EventConditions, batch: Batch, events: Events, known: KnownColumns) -> None:
        self._conditions, self._batch, self._events = conditions, batch, events
        self._columns = known
        self._answers: dict[tuple[int, int], bool | None] = {}
        self._rows: OrderedRows | None = None
        columns: dict[int, Mask] = {}
        self.lazy = self.looking_back = 0
        for index, condition in enumerate(conditions.conditions):
            if isinstance(condition, LaggedCondition) and condition.looks_back:
                self.looking_back |= 1 << index
                continue
            found = self._known(index, condition)
            if found is None:
                self.lazy |= 1 << index
            else:
                columns[index] = found
        self.holds = packed(columns, len(batch), len(conditions.conditions))

    def narrowed(self, kept: Longs, batch: Batch, events: Events) -> EvaluatedEvents:
        """The facts about some of the events, where all facts are known.

        Args:
            kept: their places.
            batch: them.
            events: the same, by their places from now on.
        """
        assert not self.lazy | self.looking_back, "what is known does not depend on places"
        made = copy(self)
        made.holds, made._batch, made._events, made._columns = self.holds[kept], batch, events, {}
        return made

    def look_back(self, rows: OrderedRows) -> None:
        """Evaluate conditions that look at the events before each one, too.

        Args:
            rows: the events of the keys that are visited, in order.
        """
        self._rows = rows
        for index, condition in enumerate(self._conditions.conditions):
            if isinstance(condition, LaggedCondition) and condition.looks_back:
                try:
                    places, holds = rows.lagged(condition)
                except EvaluationError:
                    self.lazy |= 1 << index
                else:
                    self.holds[places[holds]] |= 1 << index

    def _known(self, index: int, condition: Condition) -> Mask | None:
        """The column of a condition; None where it is not known of all events."""
        conditions = self._conditions
        try:
            if conditions.are_columns[index]:
                return self._column(index, condition)
            if conditions.of_start >> index & 1:
                return self._in_one_pass(condition)
        except EvaluationError:
            return None
        except BaseException as error:
            if is_interruption(error):
                raise
        return None

    def _column(self, index: int, condition: Condition) -> Mask:
        text = self._conditions.texts[index]
        if text is None:
            return self._conditions.column(condition, self._batch)
        found = self._columns.get(text)
        if found is None:
            found = self._columns[text] = self._conditions.column(condition, self._batch)
        return found

    def _in_one_pass(self, condition: Condition) -> Mask:
        rows = self._batch.rows
        found: Iterator[bool]
        if isinstance(condition, EventCall):
            found = map(bool, map(condition.function, rows))
        else:
            facts = self._conditions.facts
            found = (condition.holds(facts(event, self._record(place))) for place, event in enumerate(rows))
        return np.fromiter(found, np.bool_, len(rows))

    def _record(self, place: int) -> Callable[[], pa.RecordBatch]:
        return lambda: self._batch.slice(place, place + 1).columns

    def ask(self, place: int, bits: int) -> tuple[int, int]:
        """Evaluate conditions of which it is not known whether an event satisfies them.

        Returns:
            Those that it satisfies, and those of which it is still unknown, since they fail; as bits.
        """
        holds = unknown = 0
        while bits:
            bit = bits & -bits
            bits ^= bit
            found = self._answer(place, bit.bit_length() - 1)
            if found is None:
                unknown |= bit
            elif found:
                holds |= bit
        return holds, unknown

    def _answer(self, place: int, index: int) -> bool | None:
        known = self._answers
        try:
            return known[place, index]
        except KeyError:
            pass
        answer: bool | None = None
        try:
            answer = self.evaluate(place, index)
        except BaseException as error:
            if is_interruption(error):
                raise
        known[place, index] = answer
        return answer

    def evaluate(self, place: int, index: int) -> bool:
        """Evaluate a condition that something depends on; it may fail."""
        condition = self._conditions.conditions[index]
        if isinstance(condition, LaggedCondition) and condition.looks_back:
            assert self._rows is not None, "events have been evaluated by those before them"
            return self._rows.holds_before(condition, place)
        facts = self._conditions.facts(self._events.value(place), self._record(place))
        return condition.holds(facts)


def packed(columns: Mapping[int, Mask], length: int, count: int) -> Holds:
    """The conditions that each event satisfies, as bits, from a column for each condition that is known."""
    type_: Any = next((type_ for most, type_ in _TYPES_OF_BITS if count <= most), np.object_)
    packed: Holds = np.zeros(length, type_)
    for index, column in columns.items():
        if type_ is np.object_:
            packed[column] |= 1 << index
        else:
            packed |= column.astype(type_) << index
    return packed
