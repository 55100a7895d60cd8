"""The interface of kernels, and ways to make kernels from functions of single values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot

Datum: TypeAlias = pa.Array | pa.Scalar
"""A value for each row, or one for all of them."""

Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Invocation:
    """The view that a kernel has of a call.

    Attributes:
        operands: the types of the operands.
        result: the type of the result.
        options: the constant arguments that are not values, such as the unit of ``EXTRACT``.
        time_zone: ``table.local-time-zone``.
    """

    operands: tuple[LogicalType, ...]
    result: LogicalType
    options: tuple[tuple[str, Any], ...] = ()
    time_zone: str = "UTC"

    @property
    def storage(self) -> pa.DataType:
        """The Arrow type of the result."""
        return self.result.arrow_type

    def option(self, name: str, default: Any = None) -> Any:
        """The value of an option."""
        return next((value for key, value in self.options if key == name), default)


Kernel = Callable[..., Datum]
"""Computes a function of columns: ``kernel(invocation, *operands)``.

It raises ``pyarrow.ArrowInvalid`` when a row has no value, and gives either an array of one value a row, or a scalar
when all of its operands are scalars.
"""

RowFunction = Callable[..., Any]
"""Computes a function of single values, as Python has them; no value is None. It raises ``ValueError`` for failure."""


def plain(function: Callable[..., Datum]) -> Kernel:
    """A kernel of a function that needs to know nothing but the operands."""

    def compute(_: Invocation, *operands: Datum) -> Datum:
        return function(*operands)

    return compute


def by_row(function: RowFunction) -> Kernel:
    """A kernel that calls a function for each row without a NULL; a NULL operand makes the result NULL."""

    def compute(call: Invocation, *operands: Datum) -> Datum:
        return map_rows(function, call.storage, *operands)

    return compute


def by_row_with_nulls(function: RowFunction) -> Kernel:
    """A kernel that calls a function for each row, NULLs included, which are None."""

    def compute(call: Invocation, *operands: Datum) -> Datum:
        return map_rows(function, call.storage, *operands, is_strict=False)

    return compute


def map_rows(function: RowFunction, storage: pa.DataType, *operands: Datum, is_strict: bool = True) -> Datum:
    """A function of the values of each row, called once for each distinct value where these are few.

    Raises:
        pa.ArrowInvalid: when the function raises a ValueError.
    """
    try:
        if is_constant(*operands):
            values = [operand.as_py() for operand in operands]
            return pa.scalar(None if is_strict and None in values else function(*values), storage)
        indices, distinct = _distinct(operands)
        made = pa.array(_mapped(function, distinct, is_strict), storage)
        return made if indices is None else made.take(indices)
    except (ValueError, OverflowError) as error:
        raise pa.ArrowInvalid(str(error)) from error


_SAMPLE: Final = 1024
"""The number of rows from which the number of distinct values is estimated."""


def _distinct(operands: Sequence[Datum]) -> tuple[pa.Array | None, Sequence[Datum]]:
    """Operands in which each value of the only column occurs once, and their places; no places if that saves nothing.

    Floats stay as they are: they would lose the sign of zero.
    """
    columns = [operand for operand in operands if isinstance(operand, pa.Array)]
    column = columns[0]
    if len(columns) > 1 or len(column) < 2 * _SAMPLE or not _is_encodable(column.type):
        return None, operands
    repeated = _SAMPLE - pc.count_distinct(column.slice(0, _SAMPLE), mode="all").as_py()
    if repeated < min(_SAMPLE // 2, 2 * _SAMPLE**2 // len(column)):  # as many as a quarter of the rows would leave
        return None, operands
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices, [encoded.dictionary if operand is column else operand for operand in operands]


def _is_encodable(kind: pa.DataType) -> bool:
    return (pa.types.is_primitive(kind) and not pa.types.is_floating(kind)) or kind in (TEXT, pa.binary())


def _mapped(function: RowFunction, operands: Sequence[Datum], is_strict: bool) -> list[Any]:
    columns = [repeat(each.as_py()) if isinstance(each, pa.Scalar) else each.to_pylist() for each in operands]
    if is_strict and not all(
        each.is_valid if isinstance(each, pa.Scalar) else not each.null_count for each in operands
    ):
        return [None if None in row else function(*row) for row in zip(*columns, strict=False)]
    return list(map(function, *columns))


def is_constant(*operands: Datum) -> bool:
    """Return whether all operands are the same for all rows."""
    return all(isinstance(operand, pa.Scalar) for operand in operands)


def length_of(*operands: Datum) -> int:
    """The number of rows of some operands, 1 when all are constants."""
    return next((len(operand) for operand in operands if not isinstance(operand, pa.Scalar)), 1)


def as_array(operand: Datum, length: int) -> pa.Array:
    """An operand as a column of one value a row."""
    return pa.repeat(operand, length) if isinstance(operand, pa.Scalar) else operand


def on_arrays(function: Callable[..., pa.Array]) -> Callable[..., Datum]:
    """A function of arrays as one that takes constants too."""

    def compute(*operands: Datum) -> Datum:
        length = length_of(*operands)
        made = function(*(as_array(operand, length) for operand in operands))
        return made[0] if is_constant(*operands) else made

    return compute


def to_numpy(column: pa.Array, neutral: Any = 0) -> Numbers:
    """The values of a column, with a neutral one where it is NULL."""
    filled = column.fill_null(neutral) if column.null_count else column
    found: Numbers = filled.to_numpy(zero_copy_only=False)
    return found


def null_mask(*columns: pa.Array) -> Numbers | None:
    """True where any of the columns is NULL; None where none is."""
    mask: Numbers | None = None
    for column in columns:
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            mask = missing if mask is None else mask | missing
    return mask


def from_numpy(values: Numbers, storage: pa.DataType, mask: Numbers | None = None) -> pa.Array:
    """A column of these values, NULL where the mask says so."""
    return pa.array(values, storage, mask=mask, from_pandas=False)


def numeric(function: Callable[..., Numbers], storage: pa.DataType, *operands: Datum) -> Datum:
    """A function of numpy's arrays of numbers, NULL where an operand is."""

    def compute(*columns: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            made = function(*map(to_numpy, columns))
        return from_numpy(made, storage, null_mask(*columns))

    return on_arrays(compute)(*operands)


def element_at(column: pa.ListArray, index: int | None) -> pa.Array:
    """The elements of lists at a position from 1 on, NULL where there is none."""
    if index is None or index < 1:
        return pa.nulls(len(column), column.type.value_type)
    starts, lengths = column.offsets[:-1], pc.fill_null(column.value_lengths(), 0)
    places = pc.add(starts, constant(index - 1, pa.int32()))
    return column.values.take(pc.if_else(pc.greater_equal(lengths, index), places, constant(None, pa.int32())))


def any_true(condition: Datum) -> bool:
    """Return whether a condition is true for some row."""
    found = condition if isinstance(condition, pa.Scalar) else pc.any(condition)
    return bool(found.as_py())


def root_of(kind: LogicalType) -> TypeRoot | None:
    """The family of an atomic type; None for other types."""
    return kind.root if isinstance(kind, AtomicType) else None


@lru_cache(maxsize=256)
def constant(value: Any, storage: pa.DataType) -> pa.Scalar:
    """A constant, made once."""
    return pa.scalar(value, storage)


TEXT: Final = pa.string()
"""The storage type of ``CHAR`` and ``VARCHAR``."""

BOOLEAN: Final = pa.bool_()

EMPTY: Final = ""
"""Not a scalar of Arrow: the first one that is made imports pandas."""
