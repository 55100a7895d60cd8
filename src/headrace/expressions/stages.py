"""Expressions over the events that a partial match has taken, in conditions of patterns: ``last("fall").price``.

A stage of a pattern has taken some events before the current one. ``first`` and ``last`` are one of them, whose fields
are expressions; ``sum_of`` and its like are computed of all of them. Only conditions of patterns know such events.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Never

from headrace.common.errors import InvalidProgramError
from headrace.expressions.methods import checked_number, checked_text
from headrace.expressions.tree import Expression, Unfinished, as_expression, col, quoted

ALL_STAGES: Final[tuple[str, ...]] = ()
"""Stands for the stages of the whole pattern."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StageEvent(Unfinished):
    """An event that a partial match has taken; its fields are expressions, null where there is no such event.

    It has no public attributes but ``field``, since any other name is one of a field.

    Examples:
        >>> from headrace.expressions import col, last
        >>> col("price") < last("fall").price
        col("price") < last("fall").price
        >>> last("fall").field("unit price")
        last("fall").field("unit price")
    """

    _stages: tuple[str, ...]
    _is_first: bool
    _offset: int

    def field(self, name: str | int) -> Expression:
        """A field of the event; of a record that is a plain value ``value`` is the only one."""
        return StageField(self._stages, self._is_first, self._offset, col(name).key)

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(f"{self!r} has no attribute {name!r}", name=name, obj=self)
        return self.field(name)

    def __getitem__(self, name: object) -> Never:
        raise InvalidProgramError(f"{self!r}[{name!r}]: a field is {self!r}.price or {self!r}.field({name!r})")

    @property
    def _wanted(self) -> str:
        text = f"{self!r} is a whole event"
        if len(self._stages) > 1:
            text += f", the {'first' if self._is_first else 'last'} one of the stages {' and '.join(self._stages)}"
        return f"{text}: name a field of it, as in {replace(self, _stages=self._stages[:1])!r}.price"

    def __repr__(self) -> str:
        arguments = [*map(quoted, self._stages), *([f"offset={self._offset}"] if self._offset else [])]
        return f"{'first' if self._is_first else 'last'}({', '.join(arguments)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StageField(Expression):
    """A field of an event that a partial match has taken.

    Attributes:
        stages: the stages that may have taken it; none for any of the pattern.
        is_first: whether events are counted from the first one on, or from the last one back.
        offset: the number of events to go.
        key: the name of the field, or its position.
    """

    stages: tuple[str, ...]
    is_first: bool
    offset: int
    key: str | int

    def __repr__(self) -> str:
        event, key = StageEvent(self.stages, self.is_first, self.offset), self.key
        if isinstance(key, str) and _is_attribute(key):
            return f"{event!r}.{key}"
        return f"{event!r}.field({quoted(key)})"


def _is_attribute(name: str) -> bool:
    """Return whether a field can be named behind a point."""
    is_name = name.isidentifier() and not keyword.iskeyword(name)
    return is_name and not name.startswith("_") and name != "field"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StageAggregate(Expression):
    """An aggregate of the events that a stage has taken.

    Attributes:
        function: the name of the aggregate: ``sum``, ``count`` and so on.
        stages: the stage; none for all of the pattern.
        argument: what is computed of each event; None to count them.
    """

    function: str
    stages: tuple[str, ...]
    argument: Expression | None

    def __repr__(self) -> str:
        argument = [] if self.argument is None else [repr(self.argument)]
        return f"{self.function}_of({', '.join([*map(quoted, self.stages), *argument])})"


def last(*stages: str, offset: int = 0) -> StageEvent:
    """In a condition of a pattern: the last event that the partial match has taken, of some stages or of all.

    The current event is none of them yet.

    Args:
        stages: the names of the stages; all of the pattern without one.
        offset: the number of events to go back from the last one.

    Examples:
        >>> from headrace.cep import Pattern
        >>> from headrace.expressions import col, last
        >>> pattern = (
        ...     Pattern.begin("start")
        ...     .next("fall").where(col("price") < last("start", "fall").price).one_or_more().consecutive()
        ...     .next("rise").where(col("price") > last("fall").price)
        ... )
    """
    return _event("last", stages, offset)


def first(*stages: str, offset: int = 0) -> StageEvent:
    """In a condition of a pattern: the first event that the partial match has taken, of some stages or of all.

    Args:
        stages: the names of the stages; all of the pattern without one.
        offset: the number of events to go on from the first one.

    Examples:
        >>> from headrace.expressions import col, first
        >>> col("price") > 1.1 * first("start").price
        col("price") > 1.1 * first("start").price
    """
    return _event("first", stages, offset)


def count_of(stage: str) -> Expression:
    """In a condition of a pattern: the number of events that a stage has taken, without the current one.

    Examples:
        >>> from headrace.expressions import col, count_of
        >>> (count_of("failed") < 3) | (col("country") != "CH")
        (count_of("failed") < 3) | (col("country") != "CH")
    """
    return StageAggregate("count", _checked_stages("count_of", (stage,)), None)


def sum_of(stage: str, column: Any) -> Expression:
    """In a condition of a pattern: the sum over the events that a stage has taken, 0 where there are none.

    Args:
        stage: the name of the stage.
        column: the name of a field, or an expression over the fields of each event.

    Examples:
        >>> from headrace.expressions import col, sum_of
        >>> sum_of("small", "amount") + col("amount") > 1000
        sum_of("small", col("amount")) + col("amount") > 1000
    """
    return _aggregate("sum", stage, column)


def avg_of(stage: str, column: Any) -> Expression:
    """In a condition of a pattern: the average over the events that a stage has taken, null where there are none.

    Args:
        stage: the name of the stage.
        column: as of :func:`sum_of`.

    Examples:
        >>> from headrace.expressions import avg_of, col
        >>> col("price") > 2 * avg_of("usual", "price")
        col("price") > 2 * avg_of("usual", col("price"))
    """
    return _aggregate("avg", stage, column)


def min_of(stage: str, column: Any) -> Expression:
    """In a condition of a pattern: the smallest value of the events that a stage has taken, null where there is none.

    Args:
        stage: the name of the stage.
        column: as of :func:`sum_of`.

    Examples:
        >>> from headrace.expressions import col, min_of
        >>> col("price") < min_of("fall", "price")
        col("price") < min_of("fall", col("price"))
    """
    return _aggregate("min", stage, column)


def max_of(stage: str, column: Any) -> Expression:
    """In a condition of a pattern: the largest value of the events that a stage has taken, null where there is none.

    Args:
        stage: the name of the stage.
        column: as of :func:`sum_of`.

    Examples:
        >>> from headrace.expressions import col, max_of
        >>> col("price") > max_of("rise", "price")
        col("price") > max_of("rise", col("price"))
    """
    return _aggregate("max", stage, column)


def looks_at_stages(expression: Expression) -> bool:
    """Return whether an expression looks at events that stages have taken."""
    if isinstance(expression, StageField | StageAggregate):
        return True
    return any(looks_at_stages(part) for field in fields(expression) for part in _in(getattr(expression, field.name)))  # type: ignore[arg-type]


def replaced(expression: Expression, by: Callable[[Expression], Expression | None]) -> Expression:
    """An expression in which others take the place of some parts.

    Args:
        expression: the expression.
        by: gives what takes the place of a part; None leaves it, and looks at its own parts.
    """
    other = by(expression)
    if other is not None:
        return other
    made: Expression = replace(
        expression,  # type: ignore[type-var]
        **{field.name: _replaced(getattr(expression, field.name), by) for field in fields(expression)},  # type: ignore[arg-type]
    )
    return made


def _replaced(value: Any, by: Callable[[Expression], Expression | None]) -> Any:
    if isinstance(value, Expression):
        return replaced(value, by)
    return tuple(_replaced(each, by) for each in value) if isinstance(value, tuple) else value


def _in(value: object) -> list[Expression]:
    """The expressions in an attribute."""
    if isinstance(value, Expression):
        return [value]
    return [part for each in value for part in _in(each)] if isinstance(value, tuple) else []


def _event(function: str, stages: tuple[str, ...], offset: int) -> StageEvent:
    if checked_number(function, offset) < 0:
        raise InvalidProgramError(f"{function}: offset cannot be negative, it is {offset}")
    return StageEvent(_checked_stages(function, stages), function == "first", offset)


def _aggregate(function: str, stage: str, column: Any) -> Expression:
    argument = col(column) if isinstance(column, str | int) else as_expression(column)
    name = f"{function}_of"
    if looks_at_stages(argument):
        raise InvalidProgramError(f"{name} computes of the fields of each event, not of {argument!r}")
    return StageAggregate(function, _checked_stages(name, (stage,)), argument)


def _checked_stages(function: str, stages: tuple[str, ...]) -> tuple[str, ...]:
    for stage in stages:
        if isinstance(stage, Expression):
            raise InvalidProgramError(f"{function} takes the name of a stage in quotes, not {stage!r}")
        checked_text(function, stage)
    return stages
