"""Conditions of a pattern's stages: what an event has to satisfy, alone or together with those taken before it.

Some leaves of a tree of them look at the event alone: an expression over its columns, a function, a class. Iterative
ones, an expression or a function, also see the events that the partial match has taken so far. A subtree without
iterative leaves is evaluated outside the automaton, for a batch of events at once, and stands in it as a bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.expressions import Bound, Expression


class ConditionContext(Protocol):
    """The context of an iterative condition, beside the event.

    Examples:
        >>> def is_dearer(event, context):
        ...     return event.price > sum(one.price for one in context.events("cheap"))
    """

    def events(self, stage: str) -> list[Any]:
        """The events that the partial match has taken for a stage so far, in their order; empty where it has none."""

    def get_events_for_pattern(self, name: str) -> list[Any]:
        """The same under Flink's name."""

    def timestamp(self) -> int:
        """The timestamp of the event; in processing time, when it was processed."""

    def current_processing_time(self) -> int:
        """The processing time of the operator."""


class Facts:
    """The facts about one event on which conditions are decided; each use of conditions provides some of them."""

    __slots__ = ()

    def bit(self, index: int) -> bool:
        """Return whether the event satisfies an event condition of the automaton."""
        raise TypeError("conditions of events have to be evaluated before the automaton")

    def leaf(self, condition: EventLeaf) -> bool:
        """Return whether the event satisfies a leaf that looks at it alone."""
        raise TypeError(f"{condition} is evaluated outside the automaton, for a batch of events")

    def call(self, condition: IterativeCall) -> bool:
        """Return whether the event and the partial match satisfy an iterative condition."""
        raise TypeError(f"{condition} depends on the partial match")

    def of_rows(self, condition: Condition) -> bool:
        """Return whether the row and those matched before it satisfy a condition over the columns of both."""
        raise TypeError(f"{condition} is evaluated by an operator that has the rows")


class Condition(ABC):
    """A node of a tree of conditions."""

    __slots__ = ()

    @abstractmethod
    def holds(self, facts: Facts) -> bool:
        """Return whether it is satisfied; the second of two parts is evaluated only where the first does not decide."""

    def parts(self) -> tuple[Condition, ...]:
        """The conditions that it is made of."""
        return ()

    @property
    def looks_at_event_alone(self) -> bool:
        """Return whether it can be evaluated before the event meets a partial match."""
        return all(part.looks_at_event_alone for part in self.parts())

    def with_leaves(self, by: Callable[[Condition], Condition]) -> Condition:
        """The same condition, with others in the places of its leaves."""
        parts = self.parts()
        return type(self)(*(part.with_leaves(by) for part in parts)) if parts else by(self)

    def leaves(self) -> Iterator[Condition]:
        """The conditions that are not made of others, from left to right."""
        parts = self.parts()
        if not parts:
            yield self
        for part in parts:
            yield from part.leaves()


class EventLeaf(Condition):
    """A leaf that looks at the event alone; for the automaton it is a bit only."""

    __slots__ = ()

    def holds(self, facts: Facts) -> bool:
        return facts.leaf(self)

    @abstractmethod
    def test(self, event: Any) -> bool:
        """Return whether an event satisfies it."""


@dataclass(frozen=True, slots=True, eq=False)
class EventExpression(EventLeaf):
    """An expression over the columns of the event; null counts as false.

    Attributes:
        expression: what is computed, ``col("amount") < 1.0``; it may be bound to the columns already.
    """

    expression: Expression | Bound

    def test(self, event: Any) -> bool:
        raise TypeError(f"{self} is evaluated for a batch of events")

    def __str__(self) -> str:
        return str(self.expression)


@dataclass(frozen=True, slots=True, eq=False)
class EventCall(EventLeaf):
    """A function of the event.

    Attributes:
        function: what is called with the event.
        given: what the user gave: the function, or an object whose method it is, to be opened and closed.
    """

    function: Callable[[Any], object]
    given: object = None

    def test(self, event: Any) -> bool:
        return bool(self.function(event))

    def __str__(self) -> str:
        return _name_of(self.function, self.given)


@dataclass(frozen=True, slots=True, eq=False)
class EventType(EventLeaf):
    """The event is an instance of a class.

    Attributes:
        kind: the class.
    """

    kind: type

    def test(self, event: Any) -> bool:
        return isinstance(event, self.kind)

    def __str__(self) -> str:
        return self.kind.__name__


@dataclass(frozen=True, slots=True, eq=False)
class IterativeCall(Condition):
    """A function of the event and of what the partial match has taken.

    Attributes:
        function: what is called with the event and a :class:`ConditionContext`.
        given: what the user gave: the function, or an object whose method it is, to be opened and closed.
    """

    function: Callable[[Any, ConditionContext], object]
    given: object = None

    @property
    def looks_at_event_alone(self) -> bool:
        return False

    def holds(self, facts: Facts) -> bool:
        return facts.call(self)

    def __str__(self) -> str:
        return _name_of(self.function, self.given)


@dataclass(frozen=True, slots=True, eq=False)
class TakenExpression(Condition):
    """An expression over the event and those that the partial match has taken, before their type is known.

    Attributes:
        expression: what is computed: ``col("price") < last("fall").price``.
    """

    expression: Expression

    @property
    def looks_at_event_alone(self) -> bool:
        return False

    def holds(self, facts: Facts) -> bool:
        raise TypeError(f"{self} is bound to the type of the events before it is evaluated")

    def __str__(self) -> str:
        return str(self.expression)


@dataclass(frozen=True, slots=True)
class EventBit(Condition):
    """An event condition that has been evaluated outside the automaton.

    Attributes:
        index: its place among the event conditions of the automaton.
    """

    index: int

    def holds(self, facts: Facts) -> bool:
        return facts.bit(self.index)

    def __str__(self) -> str:
        return f"#{self.index}"


@dataclass(frozen=True, slots=True, eq=False)
class And(Condition):
    """Both hold."""

    first: Condition
    second: Condition

    def holds(self, facts: Facts) -> bool:
        return self.first.holds(facts) and self.second.holds(facts)

    def parts(self) -> tuple[Condition, ...]:
        return self.first, self.second

    def __str__(self) -> str:
        return f"({self.first} and {self.second})"


@dataclass(frozen=True, slots=True, eq=False)
class Or(Condition):
    """At least one holds."""

    first: Condition
    second: Condition

    def holds(self, facts: Facts) -> bool:
        return self.first.holds(facts) or self.second.holds(facts)

    def parts(self) -> tuple[Condition, ...]:
        return self.first, self.second

    def __str__(self) -> str:
        return f"({self.first} or {self.second})"


@dataclass(frozen=True, slots=True, eq=False)
class Not(Condition):
    """The other does not hold."""

    negated: Condition

    def holds(self, facts: Facts) -> bool:
        return not self.negated.holds(facts)

    def parts(self) -> tuple[Condition, ...]:
        return (self.negated,)

    def __str__(self) -> str:
        return f"not {self.negated}"


@dataclass(frozen=True, slots=True)
class Always(Condition):
    """Holds for every event."""

    def holds(self, facts: Facts) -> bool:
        return True

    def __str__(self) -> str:
        return "true"


ALWAYS: Final = Always()


class EventFacts(Facts):
    """Evaluates conditions that look at the event alone, one event at a time.

    Args:
        event: the event.
    """

    __slots__ = ("_event",)

    def __init__(self, event: Any) -> None:
        self._event = event

    def leaf(self, condition: EventLeaf) -> bool:
        return condition.test(self._event)


def _name_of(function: Callable[..., object], given: object) -> str:
    name = getattr(given if given is not None else function, "__name__", None)
    return name if isinstance(name, str) else type(given).__name__
