"""Functions of expressions by name, with the types that they take and their kernels; and casts of columns."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import isfinite
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import BasicType, BasicTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.base import FLOATS, STRINGS, WHOLE_NUMBERS
from headrace.expressions.evaluation import Datum

Numbers: TypeAlias = npt.NDArray[Any]

Kernel = Callable[..., Datum]
"""Computes a function of whole columns; options come by name."""


@dataclass(frozen=True, slots=True)
class Family:
    """Types that a function does not tell apart.

    Attributes:
        label: how messages call a value of them.
        kinds: the basic types; None for every type there is.
        storage: what columns are brought to before a kernel sees them; None leaves them as they are.
    """

    label: str
    kinds: frozenset[BasicType] | None
    storage: pa.DataType | None = None

    def takes(self, type_info: TypeInformation) -> bool:
        """Return whether values of a type belong here."""
        return self.kinds is None or (isinstance(type_info, BasicTypeInfo) and type_info.basic_type in self.kinds)

    def prepared(self, datum: Datum) -> Datum:
        """A column as kernels want it."""
        if self.storage is None or datum.type.equals(self.storage):
            return datum
        # An integer becomes the nearest double; decimals have to fit.
        return datum.cast(self.storage, safe=not pa.types.is_floating(self.storage))


ANY: Final = Family("a value", None)
INTEGER: Final = Family("an integer", WHOLE_NUMBERS, pa.int64())
NUMBER: Final = Family("a number", WHOLE_NUMBERS | FLOATS, pa.float64())
DECIMAL: Final = Family("a decimal", WHOLE_NUMBERS | {BasicType.BIG_DEC}, pa.decimal256(76, 38))
TEXT: Final = Family("text", STRINGS)
BOOLEAN: Final = Family("a boolean", frozenset({BasicType.BOOLEAN}))
BYTES: Final = Family("bytes", frozenset({BasicType.BYTES}))
DATE: Final = Family("a date", frozenset({BasicType.SQL_DATE}))
TIME: Final = Family("a time", frozenset({BasicType.SQL_TIME}))
TIMESTAMP: Final = Family("a timestamp", frozenset({BasicType.SQL_TIMESTAMP}))
ZONED: Final = Family("a timestamp with zone", frozenset({BasicType.TIMESTAMP_LTZ}))
INSTANT: Final = Family("an instant", frozenset({BasicType.INSTANT}))
_MOMENTS: Final = frozenset({BasicType.SQL_TIMESTAMP, BasicType.TIMESTAMP_LTZ, BasicType.INSTANT})
MOMENT: Final = Family("a timestamp", _MOMENTS)
CALENDAR: Final = Family("a date or a timestamp", _MOMENTS | {BasicType.SQL_DATE})
CLOCK: Final = Family("a time or a timestamp", _MOMENTS | {BasicType.SQL_TIME})


@dataclass(frozen=True, slots=True)
class Overload:
    """A function for arguments of some types.

    Attributes:
        parameters: a family for each argument.
        result: the type of the result; None for that of the first argument.
        kernel: computes it.
        is_variadic: whether the last parameter may be repeated.
        is_uniform: whether all arguments have to be of one type, whatever that is.
    """

    parameters: tuple[Family, ...]
    result: TypeInformation | None
    kernel: Kernel
    is_variadic: bool = False
    is_uniform: bool = False

    def families(self, count: int) -> tuple[Family, ...] | None:
        """A family for each of ``count`` arguments; None when it does not take so many."""
        surplus = count - len(self.parameters)
        if surplus < 0 or (surplus and not self.is_variadic):
            return None
        return self.parameters + self.parameters[-1:] * surplus

    def takes(self, types: Sequence[TypeInformation]) -> bool:
        """Return whether it is for arguments of these types."""
        families = self.families(len(types))
        if families is None or (self.is_uniform and len(set(types)) > 1):
            return False
        return all(map(Family.takes, families, types))

    def compute(self, arguments: Sequence[Datum], options: dict[str, Any]) -> Datum:
        """The function of some columns."""
        families = self.families(len(arguments))
        assert families is not None, "bound to as many arguments as it takes"
        return self.kernel(*map(Family.prepared, families, arguments), **options)


@dataclass(frozen=True, slots=True)
class ColumnFunction:
    """A function by its name.

    Attributes:
        overloads: what it does for which types; the first that fits is taken.
        wants: what it takes, for messages; empty where the overloads say it.
    """

    overloads: tuple[Overload, ...]
    wants: str = ""

    def choose(self, types: Sequence[TypeInformation]) -> int | None:
        """Return which overload is for arguments of these types; None when there is none."""
        return next((index for index, overload in enumerate(self.overloads) if overload.takes(types)), None)

    def wanted(self) -> str:
        """Return what it takes, for a message."""
        each = (" and ".join(family.label for family in overload.parameters) for overload in self.overloads)
        return self.wants or " or ".join(dict.fromkeys(each))


Caster = Callable[[Datum, pa.DataType], Datum]


def _plainly(value: Datum, target: pa.DataType) -> Datum:
    return value.cast(target)


def _number(value: Datum, target: pa.DataType) -> Datum:
    """Floats may be rounded; what is too large for 32 bits, or not whole where an integer is wanted, does not fit."""
    if not pa.types.is_floating(target):
        return value.cast(target)
    made = value.cast(target, safe=False)
    if pa.types.is_float32(target):
        lost = pc.and_(pc.is_inf(made), pc.invert(pc.is_inf(value.cast(pa.float64(), safe=False))))
        if pc.any(lost).as_py() if isinstance(lost, pa.Array) else lost.as_py():
            raise pa.ArrowInvalid("the number is too large for 32 bits")
    return made


def _spelled_float(value: Datum, target: pa.DataType) -> Datum:
    """Spell a float as Arrow writes it, but a whole number with ``.0``."""
    text = value.cast(target)
    return pc.if_else(
        pc.match_substring_regex(text, r"^-?\d+$"), pc.binary_join_element_wise(text, pa.scalar(".0"), ""), text
    )


def _spelled_integer(value: Datum, target: pa.DataType) -> Datum:
    """Decimal digits with or without a sign; Arrow alone would take ``0x10`` as well."""
    wrong = pc.invert(pc.match_substring_regex(value, r"^[+-]?[0-9]+$"))
    if pc.any(wrong).as_py() if isinstance(wrong, pa.Array) else wrong.as_py():
        texts = value.filter(wrong) if isinstance(value, pa.Array) else [value]
        raise pa.ArrowInvalid(f"{texts[0].as_py()!r} is no integer")
    return pc.replace_substring_regex(value, r"^\+", "").cast(target)


def _decimal_text(value: Datum, _: pa.DataType) -> Datum:
    value.cast(pa.decimal256(76, 38))  # refuses what is no decimal
    return value


def _of_decimal(value: Datum, target: pa.DataType) -> Datum:
    return value.cast(pa.decimal256(76, 38)).cast(target)


def _uncast(value: Datum, _: pa.DataType) -> Datum:
    return value


def _part_of_day(value: Datum, target: pa.DataType) -> Datum:
    return value.cast(target, safe=False)


FLOAT: Final = Family("a float", FLOATS)
_DECIMAL: Final = Family("a decimal", frozenset({BasicType.BIG_DEC}))
_STRING: Final = Family("text", frozenset({BasicType.STRING}))

_CASTS: Final[tuple[tuple[Family, Family, Caster], ...]] = (
    (NUMBER, NUMBER, _number),
    (BOOLEAN, NUMBER, _plainly),
    (INTEGER, _DECIMAL, _plainly),
    (_DECIMAL, INTEGER, _of_decimal),
    (_DECIMAL, FLOAT, _plainly),
    (_DECIMAL, _STRING, _uncast),
    (FLOAT, _STRING, _spelled_float),
    (INTEGER, _STRING, _plainly),
    (BOOLEAN, _STRING, _plainly),
    (DATE, _STRING, _plainly),
    (TIME, _STRING, _plainly),
    (TIMESTAMP, _STRING, _plainly),
    (TEXT, _STRING, _uncast),
    (TEXT, INTEGER, _spelled_integer),
    (TEXT, NUMBER, _plainly),
    (TEXT, BOOLEAN, _plainly),
    (TEXT, DATE, _plainly),
    (TEXT, TIMESTAMP, _plainly),
    (TEXT, _DECIMAL, _decimal_text),
    (DATE, TIMESTAMP, _plainly),
    (TIMESTAMP, DATE, _part_of_day),
    (TIMESTAMP, TIME, _part_of_day),
    (TIMESTAMP, ZONED, _plainly),
    (ZONED, TIMESTAMP, _plainly),
    (ZONED, INSTANT, _plainly),
    (INSTANT, ZONED, _plainly),
)
"""From, to, how; the first that fits is taken. Timestamps without a zone are taken for UTC where one is wanted."""


def caster(source: TypeInformation, target: TypeInformation) -> Caster | None:
    """Return how values of one type become values of another; None when they do not."""
    if source == target:
        return _uncast
    return next((how for given, made, how in _CASTS if given.takes(source) and made.takes(target)), None)


def targets_of(source: TypeInformation) -> list[str]:
    """The names of the types that values of a type can be cast to."""
    return [kind.name for kind in BasicType if caster(source, BasicTypeInfo(kind)) is not None]


_ANYTHING: Final = {"%": ".*", "_": "."}
_PATTERN_PARTS: Final = re.compile(r"\\.|.", re.DOTALL)


def concat(*parts: Datum) -> Datum:
    """Texts one after the other; null when one of them is."""
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.string()))


def _substring(text: Datum, *, start: int, length: int | None) -> Datum:
    if length is None:
        return pc.utf8_slice_codeunits(text, start)
    stop = start + length
    if start < 0 <= stop:  # up to the end, which is not position 0
        return pc.utf8_slice_codeunits(text, start)
    return pc.utf8_slice_codeunits(text, start, stop)


def _like(text: Datum, *, pattern: str) -> Datum:
    if "\\" not in pattern:
        return pc.match_like(text, pattern=pattern)
    # Arrow would take a backslash for itself in a pattern for how a text begins or ends.
    parts = (_ANYTHING.get(part) or re.escape(part[1:] or part) for part in _PATTERN_PARTS.findall(pattern))
    return pc.match_substring_regex(text, pattern=rf"(?s)\A{''.join(parts)}\z")


def _giving(result: Any, kernel: Kernel) -> ColumnFunction:
    return ColumnFunction((Overload((TEXT,), result, kernel),))


TEXT_FUNCTIONS: Final[dict[str, ColumnFunction]] = {
    "upper": _giving(Types.STRING(), pc.utf8_upper),
    "lower": _giving(Types.STRING(), pc.utf8_lower),
    "strip": _giving(Types.STRING(), pc.utf8_trim_whitespace),
    "replace": _giving(Types.STRING(), pc.replace_substring),
    "substring": _giving(Types.STRING(), _substring),
    "length": _giving(Types.LONG(), pc.utf8_length),
    "contains": _giving(Types.BOOLEAN(), pc.match_substring),
    "starts_with": _giving(Types.BOOLEAN(), pc.starts_with),
    "ends_with": _giving(Types.BOOLEAN(), pc.ends_with),
    "like": _giving(Types.BOOLEAN(), _like),
    "concat": ColumnFunction((Overload((TEXT,), Types.STRING(), concat, is_variadic=True),)),
}
"""By name."""


_LOWEST: Final = np.iinfo(np.int64).min

_INTEGER_DIGITS: Final = 18
"""Integers of so many digits fit, whatever the digits."""

_EXACT_POWER: Final = 22
"""The largest power of ten that is exactly a double."""

_EXACT_WHOLE: Final = 2.0**52
_LAST_BITS: Final = 2.0**-51


def _binary(integers: Kernel, floats: Kernel) -> tuple[Overload, ...]:
    return (
        Overload((INTEGER, INTEGER), Types.LONG(), integers),
        Overload((NUMBER, NUMBER), Types.DOUBLE(), floats),
    )


def _unary(integers: Kernel, floats: Kernel) -> tuple[Overload, ...]:
    return Overload((INTEGER,), Types.LONG(), integers), Overload((NUMBER,), Types.DOUBLE(), floats)


def _floats(kernel: Callable[..., Numbers]) -> Kernel:
    """A kernel of numpy over doubles; division by zero gives what IEEE 754 says."""

    def compute(left: Datum, right: Datum) -> Datum:
        return _by_numpy(kernel, left, right, np.nan)

    return compute


def _integers(kernel: Callable[..., Numbers]) -> Kernel:
    """A kernel of numpy over integers; division by zero is an error, and so is what does not fit."""

    def compute(left: Datum, right: Datum) -> Datum:
        return _by_numpy(kernel, left, right, 1)

    return compute


def _floor_divide(left: Numbers, right: Numbers) -> Numbers:
    _refuse_zero(right)
    if np.any((left == _LOWEST) & (right == -1)):
        raise pa.ArrowInvalid("overflow")
    return np.floor_divide(left, right)


def _remainder(left: Numbers, right: Numbers) -> Numbers:
    _refuse_zero(right)
    return np.remainder(left, right)


def _refuse_zero(divisor: Numbers) -> None:
    if not np.all(divisor):
        raise pa.ArrowInvalid("divide by zero")


def _by_numpy(kernel: Callable[..., Numbers], left: Datum, right: Datum, neutral: float) -> Datum:
    """Pairs with a null in them are computed of a neutral value, and made null."""
    is_scalar = isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    left, right = (pc.if_else(valid, side, pa.scalar(neutral, side.type)) for side in (left, right))
    with np.errstate(all="ignore"):
        computed = kernel(_numpy(left), _numpy(right))
    if is_scalar:
        return pa.scalar(computed.item() if valid.as_py() else None, left.type)
    return pa.array(computed, left.type, mask=np.logical_not(_numpy(valid)))


def _numpy(datum: Datum) -> Numbers:
    found: Numbers = np.asarray(datum.as_py()) if isinstance(datum, pa.Scalar) else datum.to_numpy(zero_copy_only=False)
    return found


def _as_it_is(value: Datum) -> Datum:
    return value


def _whole(value: Datum, *, digits: int) -> Datum:
    if digits >= 0:
        return value
    if digits >= -_INTEGER_DIGITS:
        return pc.round(value, ndigits=digits, round_mode="half_to_even")
    if digits < -_INTEGER_DIGITS - 1 or not np.any(_beyond_half(value)):
        return pc.multiply(value, 0)
    raise pa.ArrowInvalid("overflow")


def _beyond_half(value: Datum) -> Numbers:
    """Return which integers are nearer to 10 ** 19 than to zero."""
    half = 5 * 10**_INTEGER_DIGITS
    return _numpy(pc.coalesce(pc.or_(pc.greater(value, half), pc.less(value, -half)), False))


def _rounded(value: Datum, *, digits: int) -> Datum:
    """Round as Python does: by the number that a float is, not the one that it is written as."""
    if not digits:
        return pc.round(value, round_mode="half_to_even")
    if isinstance(value, pa.Scalar):
        return pa.scalar(_rounded_number(value.as_py(), digits) if value.is_valid else None, value.type)
    numbers = value.fill_null(0).to_numpy()
    with np.errstate(all="ignore"):
        rounded, doubtful = _rounded_by_scaling(numbers, digits)
    for row in np.flatnonzero(doubtful).tolist():
        rounded[row] = _rounded_number(float(numbers[row]), digits)
    return pa.array(rounded, value.type, mask=value.is_null().to_numpy(zero_copy_only=False))


def _rounded_by_scaling(numbers: Any, digits: int) -> tuple[Any, Any]:
    """The rounded numbers, and for which of them that is not certain."""
    if abs(digits) > _EXACT_POWER:
        return np.zeros_like(numbers), np.ones(len(numbers), dtype=bool)
    power = 10.0 ** abs(digits)
    scaled = numbers * power if digits > 0 else numbers / power
    whole = np.rint(scaled)
    # Scaling errs by half of the last bit at most, which can only matter beside what is halfway.
    certain = np.abs(np.abs(scaled - whole) - 0.5) > np.abs(scaled) * _LAST_BITS
    certain &= np.abs(scaled) < _EXACT_WHOLE
    rounded = whole / power if digits > 0 else whole * power
    return rounded, ~(certain & (np.abs(rounded) < _EXACT_WHOLE))


def _rounded_number(number: float, digits: int) -> float:
    try:
        return round(number, digits) if isfinite(number) else number
    except OverflowError:
        raise pa.ArrowInvalid("overflow") from None


ARITHMETIC_FUNCTIONS: Final[dict[str, ColumnFunction]] = {
    "add": ColumnFunction((*_binary(pc.add_checked, pc.add), Overload((TEXT, TEXT), Types.STRING(), concat))),
    "subtract": ColumnFunction(_binary(pc.subtract_checked, pc.subtract)),
    "multiply": ColumnFunction(_binary(pc.multiply_checked, pc.multiply)),
    "divide": ColumnFunction((Overload((NUMBER, NUMBER), Types.DOUBLE(), pc.divide),)),
    "floor_divide": ColumnFunction(_binary(_integers(_floor_divide), _floats(np.floor_divide))),
    "modulo": ColumnFunction(_binary(_integers(_remainder), _floats(np.remainder))),
    "negate": ColumnFunction(_unary(pc.negate_checked, pc.negate)),
    "abs": ColumnFunction(_unary(pc.abs_checked, pc.abs)),
    "round": ColumnFunction(_unary(_whole, _rounded)),
    "floor": ColumnFunction(_unary(_as_it_is, pc.floor)),
    "ceil": ColumnFunction(_unary(_as_it_is, pc.ceil)),
    "sqrt": ColumnFunction((Overload((NUMBER,), Types.DOUBLE(), pc.sqrt),)),
    "power": ColumnFunction((Overload((NUMBER, NUMBER), Types.DOUBLE(), pc.power),)),
}
"""By name."""


_COMPARABLE: Final = (INTEGER, NUMBER, DECIMAL, TEXT, BOOLEAN, BYTES, DATE, TIME, TIMESTAMP, ZONED, INSTANT)
"""Values of one of these are compared with one another, and with nothing else."""


def _comparing(kernel: Kernel, count: int = 2, *, is_variadic: bool = False) -> ColumnFunction:
    found = (Overload((family,) * count, Types.BOOLEAN(), kernel, is_variadic) for family in _COMPARABLE)
    wants = "values of one kind: numbers, decimals, text, bytes, booleans, dates, times or timestamps alike"
    return ColumnFunction(tuple(found), wants)


def _between(value: Datum, low: Datum, high: Datum) -> Datum:
    return pc.and_kleene(pc.greater_equal(value, low), pc.less_equal(value, high))


def _is_in(value: Datum, *members: Datum) -> Datum:
    """Return whether a value equals one of the others: null where it is null, or none equals it and one is null."""
    if not all(isinstance(member, pa.Scalar) and member.is_valid for member in members):
        return reduce(pc.or_kleene, (pc.equal(value, member) for member in members))
    known = pa.array(list(members), value.type)
    if pa.types.is_floating(known.type):
        known = known.filter(pc.invert(pc.is_nan(known)))  # a NaN equals nothing
        value, known = pc.add(value, 0.0), pc.add(known, 0.0)  # -0.0, which equals 0.0, becomes that
    return pc.if_else(pc.is_valid(value), pc.is_in(value, value_set=known), pa.scalar(None, pa.bool_()))


def _boolean(kernel: Kernel, count: int) -> ColumnFunction:
    return ColumnFunction((Overload((BOOLEAN,) * count, Types.BOOLEAN(), kernel),))


LOGIC_FUNCTIONS: Final[dict[str, ColumnFunction]] = {
    "equal": _comparing(pc.equal),
    "not_equal": _comparing(pc.not_equal),
    "less": _comparing(pc.less),
    "less_equal": _comparing(pc.less_equal),
    "greater": _comparing(pc.greater),
    "greater_equal": _comparing(pc.greater_equal),
    "between": _comparing(_between, 3),
    "is_in": _comparing(_is_in, 1, is_variadic=True),
    "and": _boolean(pc.and_kleene, 2),
    "or": _boolean(pc.or_kleene, 2),
    "not": _boolean(pc.invert, 1),
    "is_null": ColumnFunction((Overload((ANY,), Types.BOOLEAN(), pc.is_null),)),
    "is_not_null": ColumnFunction((Overload((ANY,), Types.BOOLEAN(), pc.is_valid),)),
    "is_nan": ColumnFunction((Overload((NUMBER,), Types.BOOLEAN(), pc.is_nan),)),
    "coalesce": ColumnFunction(
        (
            Overload((ANY,), None, pc.coalesce, is_variadic=True, is_uniform=True),
            Overload((INTEGER,), Types.LONG(), pc.coalesce, is_variadic=True),
            Overload((NUMBER,), Types.DOUBLE(), pc.coalesce, is_variadic=True),
            Overload((TEXT,), Types.STRING(), pc.coalesce, is_variadic=True),
        ),
        "values of one type, or numbers",
    ),
}
"""By name."""


def _without_zone(value: Datum) -> Datum:
    """Return the same in UTC without saying so: Arrow would look zones up in a database that not every machine has."""
    kind = value.type
    return value.cast(pa.timestamp(kind.unit)) if pa.types.is_timestamp(kind) and kind.tz else value


def _part(family: Family, kernel: Callable[[Datum], Datum]) -> ColumnFunction:
    def compute(value: Datum) -> Datum:
        return kernel(_without_zone(value))

    return ColumnFunction((Overload((family,), Types.LONG(), compute),))


def _day_of_week(value: Datum) -> Datum:
    return pc.day_of_week(value, count_from_zero=False)


def _epoch_millis(value: Datum) -> Datum:
    return pc.floor_temporal(value, unit="millisecond").cast(pa.timestamp("ms"), safe=False).cast(pa.int64())


TEMPORAL_FUNCTIONS: Final[dict[str, ColumnFunction]] = {
    "year": _part(CALENDAR, pc.year),
    "quarter": _part(CALENDAR, pc.quarter),
    "month": _part(CALENDAR, pc.month),
    "day": _part(CALENDAR, pc.day),
    "day_of_week": _part(CALENDAR, _day_of_week),
    "day_of_year": _part(CALENDAR, pc.day_of_year),
    "hour": _part(CLOCK, pc.hour),
    "minute": _part(CLOCK, pc.minute),
    "second": _part(CLOCK, pc.second),
    "epoch_millis": _part(MOMENT, _epoch_millis),
}
"""By name."""


FUNCTIONS: Final[dict[str, ColumnFunction]] = {
    **LOGIC_FUNCTIONS,
    **ARITHMETIC_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **TEMPORAL_FUNCTIONS,
}

TOTAL_FUNCTIONS: Final = LOGIC_FUNCTIONS.keys() | {"contains", "starts_with", "ends_with", "like"}
"""The functions that have a value, null perhaps, whatever they are applied to."""
