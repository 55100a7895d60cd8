"""Functions of expressions: what types they take, what they give, and how columns are cast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import BasicType, BasicTypeInfo, TypeInformation
from headrace.common.typeinfo.base import FLOATS, STRINGS, WHOLE_NUMBERS

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""A value for each record, or one for all of them."""

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
MOMENT: Final = Family("a timestamp", TIMESTAMP.kinds | ZONED.kinds | INSTANT.kinds)  # type: ignore[operator]
CALENDAR: Final = Family("a date or a timestamp", MOMENT.kinds | DATE.kinds)  # type: ignore[operator]
CLOCK: Final = Family("a time or a timestamp", MOMENT.kinds | TIME.kinds)  # type: ignore[operator]


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
class FunctionDefinition:
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


def _as_it_is(value: Datum, _: pa.DataType) -> Datum:
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
    (_DECIMAL, _STRING, _as_it_is),
    (FLOAT, _STRING, _spelled_float),
    (INTEGER, _STRING, _plainly),
    (BOOLEAN, _STRING, _plainly),
    (DATE, _STRING, _plainly),
    (TIME, _STRING, _plainly),
    (TIMESTAMP, _STRING, _plainly),
    (TEXT, _STRING, _as_it_is),
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
        return _as_it_is
    return next((how for given, made, how in _CASTS if given.takes(source) and made.takes(target)), None)


def targets_of(source: TypeInformation) -> list[str]:
    """The names of the types that values of a type can be cast to."""
    return [kind.name for kind in BasicType if caster(source, BasicTypeInfo(kind)) is not None]
