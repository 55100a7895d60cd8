"""Type variables, and what type checkers ask of a function of the user that is an object: its method, with its types.

So a class derived from ``MapFunction`` without parameters, as PyFlink's programs have them, is known by the annotations
of its own ``map``.
"""

import sys
import typing
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

if sys.version_info >= (3, 13):
    from typing import TypeVar
elif TYPE_CHECKING:
    from typing_extensions import TypeVar
else:

    def TypeVar(name: str, *, default: object, **variance: bool) -> typing.TypeVar:
        """A type variable; before Python 3.13 they have no default at run time."""
        del default
        return typing.TypeVar(name, **variance)


T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", covariant=True, default=Any)
T_contra = TypeVar("T_contra", contravariant=True, default=Any)
T2_co = TypeVar("T2_co", covariant=True, default=Any)
"""The records of the second one of two streams."""

K = TypeVar("K", default=Any)
K_co = TypeVar("K_co", covariant=True, default=Any)
K_contra = TypeVar("K_contra", contravariant=True, default=Any)

V = TypeVar("V", default=Any)
V_co = TypeVar("V_co", covariant=True, default=Any)
V_contra = TypeVar("V_contra", contravariant=True, default=Any)
"""Records of the second one of two streams; values of entries."""

ACC = TypeVar("ACC", default=Any)
"""The accumulator of an aggregate function."""

IN1_contra = TypeVar("IN1_contra", contravariant=True, default=Any)
IN2_contra = TypeVar("IN2_contra", contravariant=True, default=Any)
"""The records of two connected streams."""

OUT = TypeVar("OUT", default=Any)
OUT_co = TypeVar("OUT_co", covariant=True, default=Any)

W = TypeVar("W", default=Any)
W_co = TypeVar("W_co", covariant=True, default=Any)
W_contra = TypeVar("W_contra", contravariant=True, default=Any)
"""Windows."""


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
        """Return whether ``value`` is kept."""


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
