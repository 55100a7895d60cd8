"""``DataTypes``: types of SQL as programs for PyFlink write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.common import logical_types
from headrace.common.errors import InvalidTypeError, UnsupportedOperationError
from headrace.common.logical_types import MAX_LENGTH, IntervalType, IntervalUnit, LogicalType, TypeRoot
from headrace.common.public_module import public_module
from headrace.common.typeinfo import Types
from headrace.common.types import Row, RowKind

__all__ = ["DataTypes", "Row", "RowKind"]

_VIEWS: Final = "is not there yet: let the accumulator be a list or a dict, of DataTypes.ARRAY or DataTypes.MAP"


class _Field(NamedTuple):
    """A field of a row, as ``DataTypes.FIELD`` makes it."""

    name: str
    kind: LogicalType
    description: str | None


class _Resolution(NamedTuple):
    """An end of an interval, as ``DataTypes.DAY`` and its like make it."""

    unit: str
    precision: int | None = None


class DataTypes:
    """The types of SQL: of the arguments and results of functions, and of the columns of a ``Schema``.

    A text of SQL says the same: ``"DECIMAL(10, 2)"`` is ``DataTypes.DECIMAL(10, 2)``. With ``nullable=False``, or by
    ``not_null()``, they are ``NOT NULL``.

    Examples:
        >>> from headrace.table import DataTypes, Schema
        >>> row = DataTypes.ROW([DataTypes.FIELD("word", DataTypes.STRING()), DataTypes.FIELD("size", DataTypes.INT())])
        >>> DataTypes.ARRAY(row), DataTypes.TIMESTAMP_LTZ(3).not_null()
        (ARRAY<ROW<`word` STRING, `size` INT>>, TIMESTAMP_LTZ(3) NOT NULL)
        >>> print(Schema.new_builder().column("price", DataTypes.DECIMAL(10, 2)).build())
        (
          `price` DECIMAL(10, 2)
        )
    """

    @staticmethod
    def NULL() -> LogicalType:
        """The type of ``NULL`` alone."""
        return logical_types.AtomicType(TypeRoot.NULL)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> LogicalType:
        """``BOOLEAN``: a ``bool``."""
        return logical_types.AtomicType(TypeRoot.BOOLEAN, nullable=nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> LogicalType:
        """``TINYINT``: an ``int`` from -128 to 127."""
        return logical_types.AtomicType(TypeRoot.TINYINT, nullable=nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> LogicalType:
        """``SMALLINT``: an ``int`` of 16 bits."""
        return logical_types.AtomicType(TypeRoot.SMALLINT, nullable=nullable)

    @staticmethod
    def INT(nullable: bool = True) -> LogicalType:
        """``INT``: an ``int`` of 32 bits."""
        return logical_types.AtomicType(TypeRoot.INTEGER, nullable=nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> LogicalType:
        """``BIGINT``: an ``int`` of 64 bits."""
        return logical_types.AtomicType(TypeRoot.BIGINT, nullable=nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> LogicalType:
        """``FLOAT``: a ``float`` that is rounded to 32 bits."""
        return logical_types.AtomicType(TypeRoot.FLOAT, nullable=nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> LogicalType:
        """``DOUBLE``: a ``float``."""
        return logical_types.AtomicType(TypeRoot.DOUBLE, nullable=nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> LogicalType:
        """``DECIMAL``: a ``Decimal`` of at most 38 digits."""
        return logical_types.AtomicType(TypeRoot.DECIMAL, precision, scale, nullable=nullable)

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> LogicalType:
        """``CHAR``: a ``str`` of a fixed length."""
        return logical_types.AtomicType(TypeRoot.CHAR, length, nullable=nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> LogicalType:
        """``VARCHAR``: a ``str`` up to a length."""
        return logical_types.AtomicType(TypeRoot.VARCHAR, length, nullable=nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> LogicalType:
        """``STRING``: a ``str``."""
        return logical_types.AtomicType(TypeRoot.VARCHAR, MAX_LENGTH, nullable=nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> LogicalType:
        """``BINARY``: ``bytes`` of a fixed length."""
        return logical_types.AtomicType(TypeRoot.BINARY, length, nullable=nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> LogicalType:
        """``VARBINARY``: ``bytes`` up to a length."""
        return logical_types.AtomicType(TypeRoot.VARBINARY, length, nullable=nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> LogicalType:
        """``BYTES``: ``bytes``."""
        return logical_types.AtomicType(TypeRoot.VARBINARY, MAX_LENGTH, nullable=nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> LogicalType:
        """``DATE``: a ``date``."""
        return logical_types.AtomicType(TypeRoot.DATE, nullable=nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> LogicalType:
        """``TIME``: a ``time``."""
        return logical_types.AtomicType(TypeRoot.TIME, precision, nullable=nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> LogicalType:
        """``TIMESTAMP``: a ``datetime`` without a zone."""
        return logical_types.AtomicType(TypeRoot.TIMESTAMP, precision, nullable=nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> LogicalType:
        """``TIMESTAMP_LTZ``: a ``datetime`` with a zone."""
        return logical_types.AtomicType(TypeRoot.TIMESTAMP_LTZ, precision, nullable=nullable)

    TIMESTAMP_WITH_LOCAL_TIME_ZONE = TIMESTAMP_LTZ

    @staticmethod
    def ARRAY(element_type: LogicalType, nullable: bool = True) -> LogicalType:
        """``ARRAY``: a list."""
        return logical_types.ArrayType(_checked(element_type), nullable=nullable)

    @staticmethod
    def MAP(key_type: LogicalType, value_type: LogicalType, nullable: bool = True) -> LogicalType:
        """``MAP``: a dict."""
        return logical_types.MapType(_checked(key_type), _checked(value_type), nullable=nullable)

    @staticmethod
    def MULTISET(element_type: LogicalType, nullable: bool = True) -> LogicalType:
        """``MULTISET``: a dict of elements, and how often each is there."""
        return logical_types.MultisetType(_checked(element_type), nullable=nullable)

    @staticmethod
    def ROW(row_fields: Sequence[_Field] = (), nullable: bool = True) -> LogicalType:
        """``ROW``: a ``Row`` of the given fields.

        Raises:
            InvalidTypeError: when one is no ``FIELD``, or two have the same name.
        """
        for each in row_fields:
            if not isinstance(each, _Field):
                raise InvalidTypeError(f"DataTypes.ROW takes a list of DataTypes.FIELD(name, type), not {each!r}")
        said = tuple(each.description for each in row_fields)
        names, kinds = tuple(each.name for each in row_fields), tuple(each.kind for each in row_fields)
        return logical_types.RowType(names, kinds, said if any(said) else (), nullable=nullable)

    @staticmethod
    def FIELD(name: str, data_type: LogicalType, description: str | None = None) -> _Field:
        """A field of a ``ROW``."""
        return _Field(name, _checked(data_type), description)

    @staticmethod
    def INTERVAL(upper_resolution: _Resolution, lower_resolution: _Resolution | None = None) -> LogicalType:
        """``INTERVAL``: ``INTERVAL(DAY(), SECOND(3))``, ``INTERVAL(MONTH())``.

        Raises:
            InvalidTypeError: when there is no such interval.
        """
        ends = [upper_resolution] if lower_resolution is None else [upper_resolution, lower_resolution]
        name = "_TO_".join(each.unit for each in ends)
        if name not in IntervalUnit.__members__:
            raise InvalidTypeError(f"there is no INTERVAL {name.replace('_', ' ')}: the smaller unit comes last")
        given = {each.unit: each.precision for each in ends if each.precision is not None}
        leading = given.get("YEAR", given.get("DAY", 2))
        return IntervalType(IntervalUnit[name], leading, given.get("SECOND", 6))

    @staticmethod
    def YEAR(precision: int = 2) -> _Resolution:
        """Years, of so many digits."""
        return _Resolution("YEAR", precision)

    @staticmethod
    def MONTH() -> _Resolution:
        """Months."""
        return _Resolution("MONTH")

    @staticmethod
    def DAY(precision: int = 2) -> _Resolution:
        """Days, of so many digits."""
        return _Resolution("DAY", precision)

    @staticmethod
    def HOUR() -> _Resolution:
        """Hours."""
        return _Resolution("HOUR")

    @staticmethod
    def MINUTE() -> _Resolution:
        """Minutes."""
        return _Resolution("MINUTE")

    @staticmethod
    def SECOND(precision: int = 6) -> _Resolution:
        """Seconds, with so many digits behind the point."""
        return _Resolution("SECOND", precision)

    @staticmethod
    def LIST_VIEW(element_type: LogicalType) -> LogicalType:
        """Refused: there are no views of state.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(f"DataTypes.LIST_VIEW {_VIEWS}")

    @staticmethod
    def MAP_VIEW(key_type: LogicalType, value_type: LogicalType) -> LogicalType:
        """Refused: there are no views of state.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(f"DataTypes.MAP_VIEW {_VIEWS}")


def _checked(kind: object) -> LogicalType:
    return kind if isinstance(kind, LogicalType) else Types.of(kind).logical_type


public_module(__name__)
