"""What a function of expressions is: which types it takes, which type it gives, and the kernel that computes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

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
        """Whether values of a type belong here."""
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
        """Whether it is for arguments of these types."""
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
class Function:
    """A function by its name.

    Attributes:
        overloads: what it does for which types; the first that fits is taken.
        wants: what it takes, for messages; empty where the overloads say it.
    """

    overloads: tuple[Overload, ...]
    wants: str = ""

    def choose(self, types: Sequence[TypeInformation]) -> int | None:
        """Which overload is for arguments of these types; None when there is none."""
        return next((index for index, overload in enumerate(self.overloads) if overload.takes(types)), None)

    def wanted(self) -> str:
        """What it takes, for a message."""
        each = (" and ".join(family.label for family in overload.parameters) for overload in self.overloads)
        return self.wants or " or ".join(dict.fromkeys(each))
