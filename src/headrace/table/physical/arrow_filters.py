"""Conditions as filters of Arrow, by which connectors skip rows; what Arrow would decide differently is left out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.logical_types import TypeRoot
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.functions.types import root_of
from headrace.table.logical.scalars import Call, InputRef, Literal, Scalar, input_refs
from headrace.table.logical.schema import Schema

_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LOGIC: Final[dict[str, Callable[[Any, Any], Any]]] = {"AND": operator.and_, "OR": operator.or_}
_FLOATS: Final = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_COMPARED: Final = (
    *(TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT, TypeRoot.DECIMAL),
    *(*_FLOATS, TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.DATE, TypeRoot.TIMESTAMP),
)


def arrow_filters(conditions: Sequence[Scalar], columns: Schema, time_zone: str) -> tuple[pc.Expression, ...]:
    """Those of some conditions that Arrow can tell from the lowest and highest values of columns.

    Args:
        conditions: the conditions.
        columns: those of the table.
        time_zone: the session time zone.
    """
    translation = _Translation(columns, ExpressionCompiler(lambda _: "a condition", time_zone))
    found = map(translation.expression, conditions)
    return tuple(each for each in found if each is not None)


class _Translation:
    def __init__(self, columns: Schema, compiler: ExpressionCompiler) -> None:
        self._columns = columns
        self._compiler = compiler

    def expression(self, scalar: Scalar) -> pc.Expression | None:
        """The filter of a condition; None for one that there is none for."""
        if not isinstance(scalar, Call):
            return None
        if scalar.function in _LOGIC:
            parts = [self.expression(each) for each in scalar.operands]
            return None if any(each is None for each in parts) else reduce(_LOGIC[scalar.function], parts)
        if scalar.function in ("IS NULL", "IS NOT NULL") and isinstance(scalar.operands[0], InputRef):
            is_null = self._field(scalar.operands[0]).is_null()
            return is_null if scalar.function == "IS NULL" else ~is_null
        if scalar.function == "NOT":
            inner = None if self._reads_floats(scalar) else self.expression(scalar.operands[0])
            return None if inner is None else ~inner
        return self._comparison(scalar) if scalar.function in _COMPARISONS else None

    def _comparison(self, call: Call) -> pc.Expression | None:
        """A comparison of a column and a constant. What is unequal may be NaN, of which statistics do not tell."""
        left, right = call.operands
        if {type(left), type(right)} != {InputRef, Literal}:
            return None
        roots = {root_of(each.type) for each in (left, right)}
        if not roots <= set(_COMPARED) or (call.function == "<>" and self._reads_floats(call)):
            return None
        return _COMPARISONS[call.function](self._operand(left), self._operand(right))

    def _reads_floats(self, scalar: Scalar) -> bool:
        return any(root_of(self._columns.types[index]) in _FLOATS for index in input_refs(scalar))

    def _operand(self, scalar: Scalar) -> pc.Expression | pa.Scalar:
        if isinstance(scalar, InputRef):
            return self._field(scalar)
        found = self._compiler.compile(scalar).compute(pa.record_batch([pa.nulls(1, pa.int8())], names=["row"]))
        return pc.scalar(found)

    def _field(self, ref: InputRef) -> pc.Expression:
        return pc.field(self._columns.names[ref.index])
