"""What type checkers ask of a function of the user that is an object: the method that is called, with its types.

So a class derived from ``MapFunction`` without parameters, as PyFlink's programs have them, is known by the annotations
of its own ``map``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.common.type_variables import ACC, K_co, OUT_co, T, T_contra

if TYPE_CHECKING:
    from collections.abc import Iterable


class SupportsMap(Protocol[T_contra, OUT_co]):
    """A ``MapFunction``, or whatever has its method."""

    def map(self, value: T_contra, /) -> OUT_co:
        """The record that ``value`` becomes."""


class SupportsFlatMap(Protocol[T_contra, OUT_co]):
    """A ``FlatMapFunction``, or whatever has its method."""

    def flat_map(self, value: T_contra, /) -> Iterable[OUT_co] | None:
        """The records that ``value`` becomes."""


class SupportsFilter(Protocol[T_contra]):
    """A ``FilterFunction``, or whatever has its method."""

    def filter(self, value: T_contra, /) -> bool:
        """Whether ``value`` is kept."""


class SupportsGetKey(Protocol[T_contra, K_co]):
    """A ``KeySelector``, or whatever has its method."""

    def get_key(self, value: T_contra, /) -> K_co:
        """The key of ``value``."""


class SupportsReduce(Protocol[T]):
    """A ``ReduceFunction``, or whatever has its method."""

    def reduce(self, value1: T, value2: T, /) -> T:
        """Two values made one."""


class SupportsAggregate(Protocol[T_contra, ACC, OUT_co]):
    """An ``AggregateFunction``, or whatever has these methods."""

    def create_accumulator(self) -> ACC:
        """The accumulator of no values."""

    def add(self, value: T_contra, accumulator: ACC, /) -> ACC:
        """The accumulator with one more value."""

    def get_result(self, accumulator: ACC, /) -> OUT_co:
        """The result of everything that was added."""
