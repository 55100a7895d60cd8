"""Aggregates of the rows that a partial match has taken, brought forward step by step: ``sum_of("cart", "price")``.

Partial matches share steps, so what was found at a step is kept, and at the next one a single row is added to it. The
results are those of the aggregates over columns: sums of floats are exact until they are rounded.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.operators.aggregates.aggregate import Aggregate
from headrace.operators.pattern.matched_rows import AggregateOfMatch
from headrace.operators.pattern.matches import Step


class NoPlainValueError(Exception):
    """A value is none that Python's objects have as columns do: columns have to tell, or to fail."""


class StepwiseAggregate(ABC):
    """An aggregate of values that come one by one."""

    @property
    def start(self) -> Any:
        """What is known before the first one."""
        return None

    @abstractmethod
    def added(self, known: Any, value: Any) -> Any:
        """What is known with one more value, which is not null; it changes nothing of what was known before."""

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
    """How an aggregate is brought forward; None where only columns tell.

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
            NoPlainValueError: when columns have to tell it.
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
