"""Casts of arrays, maps and rows: of what they hold, and to text."""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.logical_types import ArrayType, LogicalType, MapType, MultisetType, RowType, string
from headrace.table.functions.kernels.kernel import TEXT, Datum, Invocation, map_rows, on_arrays

PartCast = Callable[[Invocation, Datum], Datum]
"""Casts what a collection holds."""


def to_collection(call: Invocation, value: Datum, part: PartCast) -> Datum:
    """A collection whose parts are cast."""
    return on_arrays(lambda column: _cast_column(call, column, part))(value)


def _cast_column(call: Invocation, column: pa.Array, part: PartCast) -> pa.Array:
    source, target = call.operands[0], call.result
    valid = column.is_valid() if column.null_count else None
    if isinstance(target, RowType):
        pairs = zip(source.children, target.types, strict=True)
        parts = [_part(call, kinds, column.field(index), part) for index, kinds in enumerate(pairs)]
        return pa.StructArray.from_arrays(
            parts, fields=list(call.storage), mask=None if valid is None else pc.invert(valid)
        )
    mask = None if valid is None else pc.invert(valid)
    column = _compact(column)
    if isinstance(target, ArrayType):
        values = _part(call, (source.children[0], target.element), column.values, part)
        return pa.ListArray.from_arrays(column.offsets, values, mask=mask).cast(call.storage)
    assert isinstance(target, MapType | MultisetType)
    keys = _part(call, (source.children[0], target.children[0]), column.keys, part)
    items = (
        column.items
        if isinstance(target, MultisetType)
        else _part(call, (source.children[1], target.value), column.items, part)
    )
    made = pa.MapArray.from_arrays(column.offsets, keys, items)
    return made if mask is None else pc.if_else(mask, pa.scalar(None, made.type), made)


def _compact(column: pa.Array) -> pa.Array:
    """The same column from its first value on, without what NULLs hold."""
    return pa.concat_arrays([column]) if not column.offset else column.take(pa.array(range(len(column)), pa.int64()))


def _part(call: Invocation, kinds: tuple[LogicalType, LogicalType], column: pa.Array, part: PartCast) -> pa.Array:
    return part(replace(call, operands=(kinds[0],), result=kinds[1]), column)


def to_text(call: Invocation, value: Datum, part: PartCast) -> Datum:
    """``[1, 2]``, ``{a=1}``, ``(1, a)``: parts as their own cast writes them."""
    source = call.operands[0]
    texts = to_collection(replace(call, result=with_text(source)), value, part)
    return map_rows(_spelled(source), TEXT, texts)


def with_text(kind: LogicalType) -> LogicalType:
    """A type of the same shape whose parts are text."""
    if isinstance(kind, ArrayType):
        return ArrayType(string())
    if isinstance(kind, RowType):
        return RowType(kind.names, tuple(string() for _ in kind.types))
    if isinstance(kind, MapType):
        return MapType(string(), string())
    return MultisetType(string())


def _spelled(source: LogicalType) -> Callable[..., str]:
    if isinstance(source, ArrayType):
        return lambda parts: "[" + ", ".join(map(_or_null, parts)) + "]"
    if isinstance(source, RowType):
        return lambda parts: "(" + ", ".join(map(_or_null, parts.values())) + ")"
    return lambda parts: "{" + ", ".join(f"{_or_null(key)}={_or_null(value)}" for key, value in parts) + "}"


def _or_null(part: object) -> str:
    return "NULL" if part is None else str(part)
