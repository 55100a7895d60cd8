"""Handlers of records: what they have in common, tuples and dicts. Each field is a column."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.row import Row, RowKind
from headrace.common.values.handler import (
    NOT_COERCED,
    NestedHandler,
    TypeHandler,
    WrongValueError,
    any_of,
)

if TYPE_CHECKING:
    from headrace.common.typeinfo import CompositeTypeInfo, DictTypeInfo, NamedTupleTypeInfo, TupleTypeInfo
    from headrace.common.values.checks import CheckSource
    from headrace.common.values.handler import Mask

Columns = list[Sequence[Any]]


class RecordHandler(NestedHandler):
    """Handles records as structs, or as the separate columns of a batch.

    Attributes:
        fields: the handlers of the fields.
        arrow_fields: the columns.
    """

    __slots__ = ("_columns", "arrow_fields", "fields")
    none_text = "None"

    info: CompositeTypeInfo

    def __init__(self, info: CompositeTypeInfo, fields: Sequence[TypeHandler]) -> None:
        self.fields = tuple(fields)
        self.arrow_fields = tuple(info.arrow_fields)
        self._columns = self.fields
        super().__init__(info)

    @abstractmethod
    def columns_of(self, records: Sequence[Any]) -> Columns:
        """One sequence of values per column, of records none of which is ``None``.

        Raises:
            WrongValueError: when a record is not of this kind.
        """

    @abstractmethod
    def records_of(self, columns: Sequence[list[Any]]) -> list[Any]:
        """The records of columns that are equally long (and at least one)."""

    @abstractmethod
    def fields_of(self, record: Any) -> Sequence[Any]:
        """The values of the fields of a coerced record."""

    @abstractmethod
    def build(self, values: Sequence[Any]) -> Any:
        """The record of coerced values of its fields."""

    def encode_columns(self, records: Sequence[Any]) -> list[pa.Array]:
        """One array per column, of records none of which is ``None``."""
        return self.arrays_of(self.columns_of(records))

    def arrays_of(self, columns: Columns) -> list[pa.Array]:
        """One array per column, of what :meth:`columns_of` gave."""
        fields = zip(self.arrow_fields, self._columns, columns, strict=True)
        return [_encode_field(field.name, handler, column) for field, handler, column in fields]

    def decode_columns(self, arrays: Sequence[pa.Array]) -> list[Any]:
        """The records of one array per column."""
        return self.records_of([handler.decode(array) for handler, array in zip(self._columns, arrays, strict=True)])

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        return pa.StructArray.from_arrays(self.encode_columns(values), fields=self.arrow_fields)

    def decode_present(self, array: pa.Array) -> list[Any]:
        return self.decode_columns(array.flatten())

    def unreadable(self, array: pa.Array) -> Mask | None:
        return self.unreadable_columns(array.flatten())

    def unreadable_columns(self, arrays: Sequence[pa.Array]) -> Mask | None:
        """As :meth:`unreadable`, of one array per column."""
        return any_of([handler.unreadable(array) for handler, array in zip(self._columns, arrays, strict=True)])

    def explained(self, array: pa.Array) -> WrongValueError:
        return self.explained_columns(array.flatten())

    def explained_columns(self, arrays: Sequence[pa.Array]) -> WrongValueError:
        """As :meth:`explained`, of one array per column."""
        columns = zip(self.arrow_fields, self._columns, arrays, strict=True)
        field, handler, array = next(column for column in columns if column[1].unreadable(column[2]) is not None)
        return handler.explained(array).inside(f", field {field.name!r}")

    def add_field_checks(self, source: CheckSource, conditions: list[str], values: Sequence[str]) -> str:
        """The conditions, and one for each field, given the expressions of their values."""
        checks = map(source.or_none, self.fields, values)
        return " and ".join([*conditions, *checks])

    def coerce_fields(self, values: Sequence[Any]) -> Any:
        """The record of values that may have to be coerced; ``NOT_COERCED`` where one does not fit."""
        if len(values) != len(self.fields):
            return NOT_COERCED
        try:
            return self.build([field.coerce(value) for field, value in zip(self.fields, values, strict=True)])
        except InvalidTypeError:
            return NOT_COERCED  # the long way tells which field is wrong

    def joined_texts(self, separator: str, record: Any) -> str:
        """The texts of the fields of a record that can be iterated over."""
        return separator.join([field.text(value) for field, value in zip(self.fields, record, strict=True)])


class TupleHandler(RecordHandler):
    """TUPLE: tuples; lists and insertion rows are taken as tuples."""

    __slots__ = ("_expected",)
    none_text = "null"

    info: TupleTypeInfo | NamedTupleTypeInfo

    tuple_class: type = tuple
    """The class of which the records come back."""

    def __init__(self, info: TupleTypeInfo | NamedTupleTypeInfo, fields: Sequence[TypeHandler]) -> None:
        self._expected = self._expectation(info)
        super().__init__(info, fields)

    def _expectation(self, info: Any) -> str:
        return f"a tuple of {len(info.types)} values, for {info}"

    def columns_of(self, records: Sequence[Any]) -> Columns:
        if set(map(type, records)) - {tuple}:
            records = [self._as_tuple(record) for record in records]
        return columns_by_position(records, len(self.fields), self._expected)

    def records_of(self, columns: Sequence[list[Any]]) -> list[Any]:
        return list(zip(*columns, strict=True))

    def _as_tuple(self, record: Any) -> tuple[Any, ...]:
        if isinstance(record, tuple | list):
            return tuple(record)
        if isinstance(record, Row) and record.get_row_kind() is RowKind.INSERT:
            return tuple(record)
        raise WrongValueError(record, self._expected)

    def fields_of(self, record: Any) -> Sequence[Any]:
        values: Sequence[Any] = record
        return values

    def build(self, values: Sequence[Any]) -> Any:
        return tuple(values)

    def add_check(self, source: CheckSource, value: str) -> str:
        first, record = source.bind(value)
        size = len(self.fields)
        conditions = [f"type({first}) is {source.name_of(self.tuple_class)}", f"len({record}) == {size}"]
        return self.add_field_checks(source, conditions, [f"{record}[{position}]" for position in range(size)])

    def coerce_fast(self, value: Any) -> Any:
        is_tuple = type(value) is tuple or type(value) is self.tuple_class
        return self.coerce_fields(value) if is_tuple else NOT_COERCED

    def text_of_present(self, value: Any) -> str:
        return f"({self.joined_texts(',', value)})"


class NamedTupleHandler(TupleHandler):
    """Instances of a named tuple class; plain tuples are taken as such."""

    __slots__ = ("tuple_class",)
    none_text = "None"

    info: NamedTupleTypeInfo

    def __init__(self, info: NamedTupleTypeInfo, fields: Sequence[TypeHandler]) -> None:
        self.tuple_class = info.record_class
        super().__init__(info, fields)

    def _expectation(self, info: Any) -> str:
        return f"an instance of {info.class_name} or a tuple of {len(info.types)} values"

    def columns_of(self, records: Sequence[Any]) -> Columns:
        check_classes(records, {tuple}, self.tuple_class, self._expected)
        return columns_by_position(records, len(self.fields), self._expected)

    def records_of(self, columns: Sequence[list[Any]]) -> list[Any]:
        # Not through the class's own __new__: as with pickle, a record is restored, not made anew.
        return list(map(tuple.__new__, repeat(self.tuple_class), zip(*columns, strict=True)))

    def build(self, values: Sequence[Any]) -> Any:
        return tuple.__new__(self.tuple_class, values)

    def text_of_present(self, value: Any) -> str:
        return str(value)


class DictHandler(RecordHandler):
    """Dicts with the same string keys."""

    __slots__ = ("_expected", "_names")

    info: DictTypeInfo

    def __init__(self, info: DictTypeInfo, fields: Sequence[TypeHandler]) -> None:
        self._names = info.names
        self._expected = f"a dict with the keys {', '.join(map(repr, info.names))} and no others"
        super().__init__(info, fields)

    def columns_of(self, records: Sequence[Any]) -> Columns:
        for record in records if set(map(type, records)) - {dict} else ():
            if not isinstance(record, Mapping):
                raise WrongValueError(record, self._expected)
        if set(map(len, records)) - {len(self._names)}:
            raise WrongValueError(records[0], self._expected)
        try:
            return [list(map(itemgetter(name), records)) for name in self._names]
        except KeyError as error:
            raise WrongValueError(records[0], self._expected) from error

    def records_of(self, columns: Sequence[list[Any]]) -> list[Any]:
        return list(map(dict, map(zip, repeat(self._names), zip(*columns, strict=True))))

    def fields_of(self, record: Any) -> Sequence[Any]:
        return list(record.values())

    def build(self, values: Sequence[Any]) -> Any:
        return dict(zip(self._names, values, strict=True))

    def add_check(self, source: CheckSource, value: str) -> str:
        first, record = source.bind(value)
        names = source.name_of(self._names)
        conditions = [f"type({first}) is dict", f"tuple({record}) == {names}"]
        values = [f"{record}[{names}[{position}]]" for position in range(len(self._names))]
        return self.add_field_checks(source, conditions, values)


def columns_by_position(records: Sequence[Any], count: int, expected: str) -> Columns:
    """The columns of sequences of ``count`` values.

    Raises:
        WrongValueError: when one is of another length.
    """
    # One pass per column is ten times as fast as zip(*records), which makes an iterator for each record.
    if set(map(len, records)) - {count}:
        wrong = next(record for record in records if len(record) != count)
        raise WrongValueError(wrong, f"{expected}; it has {len(wrong)} values")
    return [list(map(itemgetter(index), records)) for index in range(count)]


def check_classes(records: Sequence[Any], also: set[type], declared: type, expected: str) -> None:
    """Refuse records that are neither of a declared class, nor of one that is this one brought to this process twice.

    Raises:
        WrongValueError: for one that is of another class.
    """
    for kind in set(map(type, records)) - {declared} - also:
        if kind.__qualname__ != declared.__qualname__ or kind.__module__ != declared.__module__:
            wrong = next(record for record in records if type(record) is kind)
            raise WrongValueError(wrong, expected)


def _encode_field(name: str, handler: TypeHandler, column: Sequence[Any]) -> pa.Array:
    try:
        return handler.encode(column)
    except WrongValueError as error:
        raise error.inside(f", field {name!r}") from error
