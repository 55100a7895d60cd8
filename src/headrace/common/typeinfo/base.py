"""``TypeInformation``: what headrace knows about the values of a stream or a state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import UnionType
from typing import Any, Final, Generic

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.type_variables import T, T_co

Json = dict[str, Any]
"""A JSON object made of dicts, lists, strings, numbers and booleans."""

PICKLE_STORAGE: Final[pa.DataType] = pa.binary()
"""The column type of values that have no Arrow form: each is a pickle."""


class TypeInformation(ABC, Generic[T_co]):
    """Describes the values of a stream, a field, a key or a state.

    Instances are immutable, hashable and picklable, and equal when they describe the same values. They are made by
    :class:`~headrace.common.typeinfo.Types`. Every value may be ``None``, except a record of a composite type as a
    whole when it travels in a stream, and the elements of a primitive array.

    Examples:
        >>> from headrace.common import Types
        >>> payment = Types.ROW_NAMED(["card", "amount"], [str, float])
        >>> payment
        RowTypeInfo(card: String, amount: Double)
        >>> payment.get_field_names()
        ['card', 'amount']
        >>> payment.arrow_type
        StructType(struct<card: string, amount: double>)
    """

    __slots__ = ()

    @property
    @abstractmethod
    def arrow_type(self) -> pa.DataType | None:
        """The Arrow type of the values, or ``None`` for pickled Python objects (and only for those)."""

    @property
    @abstractmethod
    def is_immutable(self) -> bool:
        """Whether it is known beforehand that no value of this type can be changed in place."""

    @abstractmethod
    def to_json(self) -> Json:
        """A stable description, equal for types whose values are stored alike under the same names.

        Classes appear by their name and fields, never by reference, so that a description outlives the program.
        """

    @property
    def storage_type(self) -> pa.DataType:
        """The Arrow type of a column that holds such values: :attr:`arrow_type`, or binary for pickles."""
        return self.arrow_type or PICKLE_STORAGE

    @property
    def is_composite(self) -> bool:
        """Whether a value consists of fields that are stored as columns of their own."""
        return False

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the fields, which are also those of the columns; empty unless composite."""
        return ()

    @property
    def field_types(self) -> tuple[TypeInformation, ...]:
        """The types of the fields; empty unless composite."""
        return ()

    def field_index(self, field: str | int) -> int:
        """Where a field is, given by name or by position (negative ones count from the end).

        Raises:
            InvalidTypeError: when there is no such field; the message lists those that exist.
        """
        names = self.field_names
        if isinstance(field, str) and field in names:
            return names.index(field)
        if isinstance(field, int) and not isinstance(field, bool) and -len(names) <= field < len(names):
            return field % len(names)
        known = f"its fields are {', '.join(map(repr, names))}" if names else "it has no fields"
        raise InvalidTypeError(f"{self} has no field {field!r}: {known}")

    def get_field_names(self) -> list[str]:
        """The names of the fields, as PyFlink gives them."""
        return list(self.field_names)

    def get_field_types(self) -> list[TypeInformation]:
        """The types of the fields, as PyFlink gives them."""
        return list(self.field_types)

    def get_field_index(self, field_name: str) -> int:
        """Where a field is, or -1 when there is none of that name (PyFlink's convention)."""
        return self.field_names.index(field_name) if field_name in self.field_names else -1

    @abstractmethod
    def __str__(self) -> str:
        """Flink's spelling of the type."""

    def __repr__(self) -> str:
        return str(self)


DeclaredType = TypeInformation[T] | type[T] | UnionType | Sequence[TypeInformation[Any]]
"""What a program may say a type with: also a class, a type hint, or a list of types, which is a row as in PyFlink.

Checkers know what values it stands for when it is type information of a known class, or a class.
"""
