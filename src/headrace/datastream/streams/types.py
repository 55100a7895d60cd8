"""The types of streams: what a program says, what is found out, and how far that can be relied on.

PyFlink knows the type of a stream only when the program declares it, and lets records of all other streams be anything.
headrace finds types out; a program that PyFlink runs must not fail because of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

from headrace.common.arguments import refused
from headrace.common.errors import InvalidTypeError
from headrace.common.function_types import Role, infer_from_hint
from headrace.common.typeinfo import TypeInformation, Types


class TypeOrigin(IntEnum):
    """Where the type of a stream comes from, the most reliable first."""

    DECLARED = 0
    """The program says it, or the source or the operator always gives it."""

    ANNOTATED = 1
    """It follows from the annotations of a function, or there are none and nothing is known."""

    OBSERVED = 2
    """It is what the elements of a collection are; what a function makes of them may be something else."""


def origin_of(declared: Any) -> TypeOrigin:
    """Where the type of a function's results comes from, given what the program declares."""
    return TypeOrigin.ANNOTATED if declared is None else TypeOrigin.DECLARED


def weakest(origins: Iterable[TypeOrigin]) -> TypeOrigin:
    """The least reliable of some."""
    return max(origins)


def unchanged(record: Any) -> Any:
    """The same record; a function for streams whose records stay while their type does not."""
    return record


def one_key(_record: Any) -> int:
    """The same key for all records."""
    return 0


def never_fits(given: TypeInformation, wanted: TypeInformation) -> bool:
    """Whether no record of one type can become one of another; only where that is certain."""
    if given.is_composite and wanted.is_composite:
        pairs = list(zip(given.field_types, wanted.field_types, strict=False))
        return len(given.field_types) != len(wanted.field_types) or any(never_fits(*pair) for pair in pairs)
    kinds = {_kind(given), _kind(wanted)}
    return len(kinds) == 2 and None not in kinds


def _kind(type_: TypeInformation) -> str | None:
    """Which values a type has; None where those of others may fit as well."""
    arrow = type_.arrow_type
    if arrow is None:
        return None
    return next((kind for kind, is_of_kind in _KINDS.items() if is_of_kind(arrow)), None)


_KINDS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "records": pa.types.is_struct,
    "texts": pa.types.is_string,
    "numbers": lambda arrow: pa.types.is_integer(arrow) or pa.types.is_floating(arrow),
}


def declared_type(declared: Any) -> TypeInformation:
    """The type that a user declared; a list of types stands for a row, as in PyFlink.

    Raises:
        InvalidTypeError: when it is no type at all.
    """
    try:
        return Types.ROW(declared) if isinstance(declared, list) else Types.of(declared)
    except InvalidTypeError as error:
        raise refused(str(error), InvalidTypeError) from None


def result_type(declared: Any, function: Any, role: Role = Role.ONE) -> TypeInformation:
    """The type of what a function gives: declared, else by its annotations, else pickled objects."""
    return infer_from_hint(function, role) if declared is None else declared_type(declared)


def is_untyped(type_info: TypeInformation) -> bool:
    """Whether nothing is known about the values."""
    return type_info.arrow_type is None
