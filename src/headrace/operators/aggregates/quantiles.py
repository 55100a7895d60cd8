"""``quantile`` and ``approx_quantile``: of all different values, or of values rounded so that there are few.

Rounding to 9 significant bits leaves 256 values between a number and its double, an error of 0.2 %. So unlike sketches
which flip coins, or depend on the order of merging, the result is the same for every cut, and values can be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa

from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import Types
from headrace.common.typeinfo.base import FLOATS, WHOLE_NUMBERS
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate, has_order, is_one_of
from headrace.operators.aggregates.multisets import Multiset
from headrace.operators.arrays import fixed_width, list_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregate import InputColumn
    from headrace.operators.aggregates.aggregator import Fields

_DROPPED_BITS: Final = 52 - 8
_FINEST: Final = 10**6
"""Quantiles are multiples of a fraction with a denominator of at most this."""


@dataclass(frozen=True, slots=True)
class RoundedMultiset(Multiset):
    """The same of numbers as doubles, rounded to 9 significant bits."""

    stored_name: ClassVar[str] = "RoundedMultiset"

    @property
    def fields(self) -> Fields:
        name = f"rounded({self.name})"
        return (name, Types.LIST(Types.DOUBLE())), (f"{name}.counts", Types.LIST(Types.LONG()))

    def values(self, column: pa.Array) -> pa.Array:
        numbers = fixed_width(column).astype(np.float64)
        bits = numbers.view(np.int64)
        half, mask = np.int64(1 << (_DROPPED_BITS - 1)), np.int64(-1 << _DROPPED_BITS)
        rounded = ((bits + half) & mask).view(np.float64)
        within = np.where(np.isfinite(rounded), rounded, (bits & mask).view(np.float64))
        return pa.array(np.where(np.isfinite(numbers), within, numbers))


@dataclass(frozen=True, slots=True, eq=False)
class Quantile(Aggregate):
    """The smallest value that is at least as large as a part of all values.

    Attributes:
        part: how many of all, from 0 to 1.
    """

    part: float = 0.5

    function = "quantile"

    def __post_init__(self) -> None:
        if not isinstance(self.part, Real) or not 0 <= self.part <= 1:
            raise InvalidProgramError(
                f"{self.function}() takes a part from 0 to 1 (0.5 is the median), not {self.part!r}"
            )

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        if not has_order(column.type):
            raise self._refuse(column, "numbers, text, booleans, dates and times")
        return self._of(Multiset(column.source, column.name, column.type), name)

    def _of(self, values: Multiset, name: str) -> BoundAggregate:
        part = Fraction(self.part).limit_denominator(_FINEST)
        return BoundAggregate(name, values.type, (values,), partial(_at, part))


@dataclass(frozen=True, slots=True, eq=False)
class ApproxQuantile(Quantile):
    """The same of rounded numbers."""

    function = "approx_quantile"

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        if not is_one_of(column.type, WHOLE_NUMBERS | FLOATS):
            raise self._refuse(column, "numbers of up to 64 bits")
        return self._of(RoundedMultiset(column.source, column.name, Types.DOUBLE()), name)


def quantile(column: str | int | Expression | None = None, part: float = 0.5) -> Quantile:
    """The smallest value of a column that is at least as large as a part of all its values; by default the median.

    Args:
        column: the values.
        part: from 0, the smallest, to 1, the largest.

    Raises:
        InvalidProgramError: when ``part`` is not a number from 0 to 1.

    Examples:
        >>> from headrace.datastream.aggregates import quantile
        >>> quantile("age").alias("median_age")
        Quantile(column='age', name='median_age', part=0.5)
    """
    return Quantile(column, part=part)


def approx_quantile(column: str | int | Expression | None = None, part: float = 0.5) -> ApproxQuantile:
    """The same within 0.2 % of the value, as a ``DOUBLE``; a window keeps a few hundred values at most of each key.

    Args:
        column: the values.
        part: from 0, the smallest, to 1, the largest.

    Raises:
        InvalidProgramError: when ``part`` is not a number from 0 to 1.

    Examples:
        >>> from headrace.datastream.aggregates import approx_quantile
        >>> approx_quantile("latency", 0.99).alias("p99")
        ApproxQuantile(column='latency', name='p99', part=0.99)
    """
    return ApproxQuantile(column, part=part)


def _at(part: Fraction, results: Sequence[pa.Array]) -> pa.Array:
    """The value at a part of each multiset; null where it is empty."""
    values, counts = results[0].flatten()
    lengths = list_lengths(values)
    ends = np.cumsum(lengths)
    upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(fixed_width(counts.flatten()))))
    before = upto[ends - lengths]
    ranks = -((before - upto[ends]) * part.numerator // part.denominator)  # rounded up
    places = np.searchsorted(upto[1:], before + np.maximum(ranks, 1))
    return values.flatten().take(pa.array(np.where(lengths == 0, 0, places), mask=lengths == 0))
