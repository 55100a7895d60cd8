"""Rules of casts by families of source and target."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from headrace.common.logical_types import (
    ArrayType,
    AtomicType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    string,
)
from headrace.table.functions.kernels.bitmaps import bitmap_to_string
from headrace.table.functions.kernels.casts import collections, numbers, temporal, texts
from headrace.table.functions.kernels.kernel import Datum, Invocation, any_true, constant

CastKernel = Callable[[Invocation, Datum], Datum]


@dataclass(frozen=True, slots=True)
class CastRule:
    """A cast from one family of types to another.

    Attributes:
        kernel: casts a column.
        may_fail: whether a value that becomes NULL is an error of ``CAST``. Too many digits for a DECIMAL are none.
    """

    kernel: CastKernel
    may_fail: bool = False


def _spelled(kernel: CastKernel) -> CastKernel:
    """A cast to text of any length, followed by that to the length of the result."""

    def compute(call: Invocation, value: Datum) -> Datum:
        return texts.fitted(kernel(replace(call, result=string()), value), call.result)

    return compute


_FAMILIES: Final = {
    "boolean": (TypeRoot.BOOLEAN,),
    "number": (
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INTEGER,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
    ),
    "text": (TypeRoot.CHAR, TypeRoot.VARCHAR),
    "bytes": (TypeRoot.BINARY, TypeRoot.VARBINARY),
    "date": (TypeRoot.DATE,),
    "time": (TypeRoot.TIME,),
    "timestamp": (TypeRoot.TIMESTAMP,),
    "instant": (TypeRoot.TIMESTAMP_LTZ,),
    "bitmap": (TypeRoot.BITMAP,),
}

_FAMILY_OF: Final = {root: family for family, roots in _FAMILIES.items() for root in roots}

_RULES: Final[dict[tuple[str, str], CastRule]] = {
    ("number", "number"): CastRule(numbers.to_number),
    ("boolean", "number"): CastRule(numbers.boolean_to_number),
    ("number", "boolean"): CastRule(numbers.number_to_boolean),
    ("boolean", "text"): CastRule(_spelled(numbers.boolean_to_text)),
    ("number", "text"): CastRule(_spelled(numbers.number_to_text)),
    ("interval", "text"): CastRule(_spelled(numbers.interval_to_text)),
    ("number", "interval"): CastRule(numbers.number_to_interval),
    ("interval", "interval"): CastRule(numbers.interval_to_interval),
    ("text", "text"): CastRule(texts.to_text),
    ("text", "boolean"): CastRule(texts.to_boolean, may_fail=True),
    ("text", "number"): CastRule(texts.to_number, may_fail=True),
    ("text", "date"): CastRule(texts.to_date, may_fail=True),
    ("text", "time"): CastRule(texts.to_time, may_fail=True),
    ("text", "timestamp"): CastRule(texts.to_timestamp, may_fail=True),
    ("text", "instant"): CastRule(texts.to_timestamp, may_fail=True),
    ("text", "bytes"): CastRule(texts.to_bytes),
    ("bytes", "bytes"): CastRule(texts.to_bytes),
    ("bitmap", "text"): CastRule(_spelled(bitmap_to_string)),
    ("bytes", "text"): CastRule(texts.bytes_to_text),
    **{
        (source, target): CastRule(temporal.to_temporal)
        for source, target in (
            ("date", "timestamp"), ("date", "instant"),
            ("time", "time"), ("time", "timestamp"), ("time", "instant"),
            ("timestamp", "date"), ("timestamp", "time"), ("timestamp", "timestamp"), ("timestamp", "instant"),
            ("instant", "date"), ("instant", "time"), ("instant", "timestamp"), ("instant", "instant"),
        )
    },
    **{
        (source, "text"): CastRule(_spelled(temporal.to_text)) for source in ("date", "time", "timestamp", "instant")
    },
}  # fmt: skip
"""Cast rules by family of source and target. Types that differ only in nullability need none."""


def _family(kind: LogicalType) -> str | None:
    if isinstance(kind, AtomicType):
        return _FAMILY_OF.get(kind.root)
    if isinstance(kind, IntervalType):
        return "interval"
    return {ArrayType: "array", MapType: "map", MultisetType: "multiset", RowType: "row"}.get(type(kind))


def _rule(source: LogicalType, target: LogicalType) -> CastRule | None:
    one, other = _family(source), _family(target)
    if one is None or other is None:
        return None
    if one in ("array", "map", "multiset", "row"):
        if other == "text":
            return CastRule(_spelled(lambda call, value: collections.to_text(call, value, cast)))
        return CastRule(lambda call, value: collections.to_collection(call, value, cast)) if one == other else None
    return _RULES.get((one, other))


def has_cast(source: LogicalType, target: LogicalType) -> bool:
    """Return whether there is a cast from one type to another."""
    if source.as_nullable() == target.as_nullable() or source.as_nullable() == AtomicType(TypeRoot.NULL):
        return True
    if _rule(source, target) is None:
        return False
    if _family(source) != _family(target) or not source.children:
        return all(has_cast(part, string()) for part in source.children)
    return all(map(has_cast, source.children, target.children))


def cast(call: Invocation, value: Datum) -> Datum:
    """Values of one type as values of another; the option ``is_try`` makes NULL of those that are none.

    Raises:
        pa.ArrowInvalid: when a value is none of the other type.
    """
    source, target = call.operands[0], call.result
    if source.as_nullable() == target.as_nullable():
        return value
    if pa.types.is_null(value.type):
        return constant(None, call.storage) if isinstance(value, pa.Scalar) else pa.nulls(len(value), call.storage)
    if call.option("is_try", False) and source.children and target.children:
        return _tried(call, value)
    rule = _rule(source, target)
    assert rule is not None, f"refused when it was bound: {source} to {target}"
    made = rule.kernel(call, value)
    if rule.may_fail and not call.option("is_try", False):
        _refuse_failures(value, made, target)
    return made


def _tried(call: Invocation, value: Datum) -> Datum:
    """Collections as others, and NULL in place of those with a value that cannot be cast."""
    try:
        return cast(replace(call, options=()), value)
    except ValueError:
        if isinstance(value, pa.Scalar):
            return pa.scalar(None, call.storage)
    half = len(value) // 2
    if not half:
        return pa.nulls(1, call.storage)
    return pa.concat_arrays([_tried(call, value[:half]), _tried(call, value[half:])])


def _refuse_failures(value: Datum, made: Datum, target: LogicalType) -> None:
    lost = texts.failed(value, made)
    if any_true(lost):
        wrong = value if isinstance(value, pa.Scalar) else value.filter(lost)[0]
        raise pa.ArrowInvalid(f"{wrong.as_py()!r} is no {target.as_nullable()}")
