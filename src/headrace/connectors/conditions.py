"""Conditions on columns by which sources may read fewer rows."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.logical_types import LogicalType

COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The comparisons of SQL."""

_LOGIC: Final[dict[str, Callable[[Any, Any], Any]]] = {"AND": operator.and_, "OR": operator.or_}

FLIPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparisons with their sides exchanged."""


class Condition(ABC):
    """A condition on the columns of a row."""

    @abstractmethod
    def as_arrow(self) -> pc.Expression:
        """The condition as an expression of Arrow."""


@dataclass(frozen=True, slots=True)
class Comparison(Condition):
    """A column compared with a constant.

    Attributes:
        column: its name.
        operator: a comparison of SQL.
        constant: the constant.
        kind: its type.
    """

    column: str
    operator: str
    constant: pa.Scalar
    kind: LogicalType

    def as_arrow(self) -> pc.Expression:
        return COMPARISONS[self.operator](pc.field(self.column), pc.scalar(self.constant))


@dataclass(frozen=True, slots=True)
class NullCheck(Condition):
    """A column that is NULL, or is not."""

    column: str
    is_null: bool

    def as_arrow(self) -> pc.Expression:
        found = pc.field(self.column).is_null()
        return found if self.is_null else ~found


@dataclass(frozen=True, slots=True)
class Combination(Condition):
    """Conditions of which all hold, or any.

    Attributes:
        word: ``AND`` or ``OR``.
        parts: the conditions.
    """

    word: str
    parts: tuple[Condition, ...]

    def as_arrow(self) -> pc.Expression:
        return reduce(_LOGIC[self.word], (each.as_arrow() for each in self.parts))


@dataclass(frozen=True, slots=True)
class Negation(Condition):
    """A condition that does not hold."""

    part: Condition

    def as_arrow(self) -> pc.Expression:
        return ~self.part.as_arrow()
