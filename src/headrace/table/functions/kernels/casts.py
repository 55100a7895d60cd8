"""``CAST`` and ``TRY_CAST``: one table of how values of each family become those of another."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.logical_types import (
    MAX_LENGTH,
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
from headrace.table.functions.kernels import decimals, numbers, texts, times
from headrace.table.functions.kernels.calendar import MICROS_PER_DAY, Moments, column_of, moments_of
from headrace.table.functions.kernels.collections import bitmap_to_string
from headrace.table.functions.kernels.kernel import TEXT, Datum, Invocation, any_true, constant, map_rows, on_arrays
from headrace.table.functions.kernels.shapes import NUMBER, by_shape
from headrace.table.functions.kernels.spelling import double_of, double_text, float_text, spelled
from headrace.table.functions.kernels.time_patterns import DEFAULT, written
from headrace.table.functions.kernels.zones import to_utc


def _to_collection(call: Invocation, value: Datum) -> Datum:
    """A collection whose parts are cast."""
    return on_arrays(lambda column: _cast_column(call, column))(value)


def _cast_column(call: Invocation, column: pa.Array) -> pa.Array:
    source, target = call.operands[0], call.result
    mask = column.is_null() if column.null_count else None
    if isinstance(target, RowType):
        pairs = zip(source.children, target.types, strict=True)
        parts = [_part(call, kinds, column.field(index)) for index, kinds in enumerate(pairs)]
        return pa.StructArray.from_arrays(parts, fields=list(call.storage), mask=mask)
    column = _compact(column)
    if isinstance(target, ArrayType):
        values = _part(call, (source.children[0], target.element), column.values)
        return pa.ListArray.from_arrays(column.offsets, values, mask=mask).cast(call.storage)
    assert isinstance(target, MapType | MultisetType)
    keys = _part(call, (source.children[0], target.children[0]), column.keys)
    is_counted = isinstance(target, MultisetType)
    items = column.items if is_counted else _part(call, (source.children[1], target.children[1]), column.items)
    made = pa.MapArray.from_arrays(column.offsets, keys, items)
    return made if mask is None else pc.if_else(mask, pa.scalar(None, made.type), made)


def _compact(column: pa.Array) -> pa.Array:
    """The same column from its first value on, without what NULLs hold."""
    return pa.concat_arrays([column]) if not column.offset else column.take(pa.array(range(len(column)), pa.int64()))


def _part(call: Invocation, kinds: tuple[LogicalType, LogicalType], column: pa.Array) -> pa.Array:
    return cast(replace(call, operands=(kinds[0],), result=kinds[1]), column)


def _collection_to_text(call: Invocation, value: Datum) -> Datum:
    """``[1, 2]``, ``{a=1}``, ``(1, a)``: parts as their own cast writes them."""
    source = call.operands[0]
    parts = _to_collection(replace(call, result=_with_text(source)), value)
    return map_rows(_written(source), TEXT, parts)


def _with_text(kind: LogicalType) -> LogicalType:
    """A type of the same shape whose parts are text."""
    if isinstance(kind, ArrayType):
        return ArrayType(string())
    if isinstance(kind, RowType):
        return RowType(kind.names, tuple(string() for _ in kind.types))
    if isinstance(kind, MapType):
        return MapType(string(), string())
    return MultisetType(string())


def _written(source: LogicalType) -> Callable[..., str]:
    if isinstance(source, ArrayType):
        return lambda parts: "[" + ", ".join(map(_or_null, parts)) + "]"
    if isinstance(source, RowType):
        return lambda parts: "(" + ", ".join(map(_or_null, parts.values())) + ")"
    return lambda parts: "{" + ", ".join(f"{_or_null(key)}={_or_null(value)}" for key, value in parts) + "}"


def _or_null(part: object) -> str:
    return "NULL" if part is None else str(part)


_MICROS_PER_MILLI: Final = 1000


def _number_to_number(call: Invocation, value: Datum) -> Datum:
    """A number as one of another type."""
    return numbers.converted(value, call.storage)


def _boolean_to_number(call: Invocation, value: Datum) -> Datum:
    """1 for true, 0 for false."""
    if pa.types.is_decimal(call.storage):
        return decimals.rescaled(value.cast(pa.int8()).cast(pa.decimal128(3, 0)), call.storage)
    return value.cast(call.storage)


def _number_to_boolean(_: Invocation, value: Datum) -> Datum:
    """Return which numbers are not zero."""
    if pa.types.is_floating(value.type):
        return pc.not_equal(value, constant(0.0, value.type))  # NaN is none
    return pc.not_equal(pc.sign(value).cast(pa.int64()), constant(0, pa.int64()))


def _boolean_to_text(_: Invocation, value: Datum) -> Datum:
    """``TRUE`` or ``FALSE``."""
    return pc.if_else(value, constant("TRUE", TEXT), constant("FALSE", TEXT))


def _number_to_text(_: Invocation, value: Datum) -> Datum:
    """A number as Java writes it."""
    if isinstance(value, pa.Array):
        return spelled(value)
    if pa.types.is_floating(value.type):
        return map_rows(float_text if pa.types.is_float32(value.type) else double_text, TEXT, value)
    if pa.types.is_decimal(value.type):
        return map_rows(lambda number: f"{number:f}", TEXT, value)
    return value.cast(TEXT)


def _interval_to_text(call: Invocation, value: Datum) -> Datum:
    """An interval as SQL writes it: ``+1-02``, ``+1 02:03:04.500``."""
    source = call.operands[0]
    assert isinstance(source, IntervalType)
    return map_rows(_months_text if source.unit.is_of_months else _micros_text, TEXT, value.cast(_count_type(source)))


def _count_type(source: IntervalType) -> pa.DataType:
    return pa.int32() if source.unit.is_of_months else pa.int64()


def _months_text(months: int) -> str:
    years, rest = divmod(abs(months), 12)
    return f"{'-' if months < 0 else '+'}{years}-{rest:02}"


def _micros_text(micros: int) -> str:
    seconds, rest = divmod(abs(micros), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    sign = "-" if micros < 0 else "+"
    return f"{sign}{day} {hour:02}:{minute:02}:{second:02}.{rest // _MICROS_PER_MILLI:03}"


def _number_to_interval(call: Invocation, value: Datum) -> Datum:
    """An interval of a number of months, or of milliseconds."""
    if not pa.types.is_duration(call.storage):
        return numbers.converted(value, call.storage)
    millis = numbers.converted(value, pa.int64())
    return pc.multiply(millis, constant(_MICROS_PER_MILLI, pa.int64())).cast(call.storage)


def _interval_to_interval(call: Invocation, value: Datum) -> Datum:
    """The same amount of time."""
    return value.cast(call.storage)


def _temporal_to_temporal(call: Invocation, value: Datum) -> Datum:
    """A date, a time or a point in time as one of another type, in the session's zone."""
    return on_arrays(lambda column: column_of(_cut(column, call), call.storage, call.time_zone))(value)


def _cut(column: pa.Array, call: Invocation) -> Moments:
    """The local time, cut to the digits of the result."""
    at = moments_of(column, call.time_zone)
    digits = _digits(call.result)
    if digits > 6:
        return at
    step = 10 ** (6 - digits)
    return replace(at, micros=at.micros // step * step, nanos=None)


def _digits(kind: LogicalType) -> int:
    return kind.size or 0 if isinstance(kind, AtomicType) and kind.size is not None else 6


def _temporal_to_text(call: Invocation, value: Datum) -> Datum:
    """A date, a time or a point in time as SQL writes it."""
    source = call.operands[0]
    digits = _digits(source)
    pattern = {"DATE": "yyyy-MM-dd", "TIME": "HH:mm:ss"}.get(str(source).partition("(")[0].partition(" ")[0], DEFAULT)
    if digits and pattern != "yyyy-MM-dd":
        pattern += "." + "S" * digits
    return on_arrays(lambda column: written(moments_of(column, call.time_zone), pattern))(value)


_WHOLE: Final = re.compile(r"\s*([+-]?)(?:(\d+)(?:\.\d*)?|\.\d+)\s*", re.ASCII)
_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})


def _text_to_boolean(_: Invocation, text: Datum) -> Datum:
    """The truth value of ``true``, ``yes``, ``1`` and their like."""
    return map_rows(_boolean, pa.bool_(), text)


def _boolean(text: str) -> bool | None:
    word = text.lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _text_to_number(call: Invocation, text: Datum) -> Datum:
    """The number that a text says; of an integer what is behind the point is left out."""
    storage = call.storage
    one: Callable[[str], int | Decimal | None]
    if pa.types.is_integer(storage):
        limits = np.iinfo(storage.to_pandas_dtype())
        one = partial(_integer, low=int(limits.min), high=int(limits.max))
        shape = rf"\A-?[0-9]{{1,{len(str(limits.max)) - 1}}}\z"
    elif pa.types.is_decimal(storage):
        one, shape = partial(_decimal, storage=storage), _decimal_shape(storage)
    else:
        return _to_double(text).cast(storage, safe=False)
    return by_shape(shape, lambda usual: usual.cast(storage), partial(_rounded, storage, one))(text)


def _rounded(storage: pa.DataType, one: Callable[[str], int | Decimal | None], text: Datum) -> Datum:
    """Numbers with more digits behind the point than their type has, and texts that say a number in another way."""

    def one_by_one(other: Datum) -> Datum:
        return map_rows(one, storage, other)

    if not pa.types.is_decimal(storage) or storage.precision > _MOST_DIGITS - _MORE_DIGITS:
        return one_by_one(text)
    wide = pa.decimal128(storage.precision + _MORE_DIGITS, storage.scale + _MORE_DIGITS)
    return by_shape(_decimal_shape(wide), lambda usual: decimals.rescaled(usual.cast(wide), storage), one_by_one)(text)


_MOST_DIGITS: Final = 38
_MORE_DIGITS: Final = 6


def _decimal_shape(storage: pa.DataType) -> str:
    """The shape of decimals that fit as they are; none when there is no digit before the point."""
    whole, fraction = storage.precision - storage.scale, storage.scale
    if not whole:
        return r"\A\z"
    return rf"\A-?[0-9]{{1,{whole}}}(\.[0-9]{{1,{fraction}}})?\z" if fraction else rf"\A-?[0-9]{{1,{whole}}}\z"


def _to_double(text: Datum) -> Datum:
    def one_by_one(other: Datum) -> Datum:
        return map_rows(double_of, pa.float64(), other)

    return by_shape(NUMBER, lambda usual: usual.cast(pa.float64()), one_by_one)(text)


def _integer(text: str, low: int, high: int) -> int | None:
    found = _WHOLE.fullmatch(text)
    number = None if found is None else int(found[1] + (found[2] or "0"))
    return number if number is not None and low <= number <= high else None


def _decimal(text: str, storage: pa.DataType) -> Decimal | None:
    try:
        return decimals.fitted(Decimal(text.strip()), storage)
    except InvalidOperation:
        return None


def _text_to_date(call: Invocation, text: Datum) -> Datum:
    """The date that a text says."""
    return times.days_of_texts(text).cast(call.storage)


def _text_to_time(call: Invocation, text: Datum) -> Datum:
    """The time of day that a text says."""
    return map_rows(lambda value: _within_day(times.time_of(value)), pa.int64(), text).cast(call.storage)


def _within_day(micros: int | None) -> int | None:
    return None if micros is None else micros % MICROS_PER_DAY


def _text_to_timestamp(call: Invocation, text: Datum) -> Datum:
    """The point in time that a text says."""
    if call.storage.unit != "ns":
        return times.truncated(call, times.micros_of_texts(text))

    def of_row(value: str) -> int | None:
        nanos = times.timestamp_of(value)
        if nanos is None or not call.storage.tz:
            return nanos
        micros, rest = divmod(nanos, 1000)
        return int(to_utc(np.array([micros]), call.time_zone)[0]) * 1000 + rest

    return map_rows(of_row, pa.int64(), text).cast(call.storage)


def _text_to_text(call: Invocation, text: Datum) -> Datum:
    """A text of another length: cut, and for CHAR padded with spaces."""
    return _fitted(text, call.result)


def _fitted(text: Datum, target: object) -> Datum:
    """A text of the length of a type."""
    assert isinstance(target, AtomicType)
    size = target.size or 0
    return text if size == MAX_LENGTH else texts.fitted(text, size, pads=target.root.value == "CHAR")


def _to_bytes(call: Invocation, value: Datum) -> Datum:
    """The bytes of a text in UTF-8, or other bytes, of a length: cut, and for BINARY padded with zeros."""
    target = call.result
    assert isinstance(target, AtomicType)
    made, size = value.cast(pa.binary()), target.size or 0
    if size == MAX_LENGTH:
        return made
    pads = target.root.value == "BINARY"
    return map_rows(lambda data: data[:size].ljust(size, b"\0") if pads else data[:size], pa.binary(), made)


def _bytes_to_text(call: Invocation, value: Datum) -> Datum:
    """The text that bytes say in UTF-8."""
    try:
        text = value.cast(TEXT)
    except pa.ArrowInvalid:  # some bytes are no text
        text = map_rows(lambda data: data.decode("utf-8", "replace"), TEXT, value)
    return _fitted(text, call.result)


_CastKernel = Callable[[Invocation, Datum], Datum]


@dataclass(frozen=True, slots=True)
class _CastRule:
    """A cast from one family of types to another.

    Attributes:
        kernel: casts a column.
        may_fail: whether a value that becomes NULL is an error of ``CAST``. Too many digits for a DECIMAL are none.
    """

    kernel: _CastKernel
    may_fail: bool = False


def _spelled(kernel: _CastKernel) -> _CastKernel:
    """A cast to text of any length, followed by that to the length of the result."""

    def compute(call: Invocation, value: Datum) -> Datum:
        return _fitted(kernel(replace(call, result=string()), value), call.result)

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

_RULES: Final[dict[tuple[str | None, str | None], _CastRule]] = {
    ("number", "number"): _CastRule(_number_to_number),
    ("boolean", "number"): _CastRule(_boolean_to_number),
    ("number", "boolean"): _CastRule(_number_to_boolean),
    ("boolean", "text"): _CastRule(_spelled(_boolean_to_text)),
    ("number", "text"): _CastRule(_spelled(_number_to_text)),
    ("interval", "text"): _CastRule(_spelled(_interval_to_text)),
    ("number", "interval"): _CastRule(_number_to_interval),
    ("interval", "interval"): _CastRule(_interval_to_interval),
    ("text", "text"): _CastRule(_text_to_text),
    ("text", "boolean"): _CastRule(_text_to_boolean, may_fail=True),
    ("text", "number"): _CastRule(_text_to_number, may_fail=True),
    ("text", "date"): _CastRule(_text_to_date, may_fail=True),
    ("text", "time"): _CastRule(_text_to_time, may_fail=True),
    ("text", "timestamp"): _CastRule(_text_to_timestamp, may_fail=True),
    ("text", "instant"): _CastRule(_text_to_timestamp, may_fail=True),
    ("text", "bytes"): _CastRule(_to_bytes),
    ("bytes", "bytes"): _CastRule(_to_bytes),
    ("bitmap", "text"): _CastRule(_spelled(bitmap_to_string)),
    ("bytes", "text"): _CastRule(_bytes_to_text),
    **{
        (source, target): _CastRule(_temporal_to_temporal)
        for source, target in (
            ("date", "timestamp"), ("date", "instant"),
            ("time", "time"), ("time", "timestamp"), ("time", "instant"),
            ("timestamp", "date"), ("timestamp", "time"), ("timestamp", "timestamp"), ("timestamp", "instant"),
            ("instant", "date"), ("instant", "time"), ("instant", "timestamp"), ("instant", "instant"),
        )
    },
    **{
        (source, "text"): _CastRule(_spelled(_temporal_to_text)) for source in ("date", "time", "timestamp", "instant")
    },
    **{(kind, kind): _CastRule(_to_collection) for kind in ("array", "map", "multiset", "row")},
    **{(kind, "text"): _CastRule(_spelled(_collection_to_text)) for kind in ("array", "map", "multiset", "row")},
}  # fmt: skip
"""Cast rules by family of source and target. Types that differ only in nullability need none."""


def _family(kind: LogicalType) -> str | None:
    if isinstance(kind, AtomicType):
        return _FAMILY_OF.get(kind.root)
    if isinstance(kind, IntervalType):
        return "interval"
    return {ArrayType: "array", MapType: "map", MultisetType: "multiset", RowType: "row"}.get(type(kind))


def _rule(source: LogicalType, target: LogicalType) -> _CastRule | None:
    return _RULES.get((_family(source), _family(target)))


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
    lost = pc.and_(pc.is_valid(value), pc.is_null(made))
    if any_true(lost):
        wrong = value if isinstance(value, pa.Scalar) else value.filter(lost)[0]
        raise pa.ArrowInvalid(f"{wrong.as_py()!r} is no {target.as_nullable()}")
