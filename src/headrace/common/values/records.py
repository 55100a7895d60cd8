"""Handlers of records: what they have in common, tuples and dicts. Each field is a column."""

import dataclasses
import inspect
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import valid_mask
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    DataclassTypeInfo,
    DetachedTypeInfo,
    DictTypeInfo,
    NamedTupleTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from headrace.common.types import Row, RowKind, make_row, make_rows
from headrace.common.values.handler import (
    NOT_COERCED,
    CheckSource,
    Mask,
    NestedHandler,
    TypeHandler,
    WrongValueError,
    any_of,
)
from headrace.common.values.numbers import IntegerHandler

Kinds = npt.NDArray[np.int8]


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
    def columns_of(self, records: Sequence[object]) -> Columns:
        """One sequence of values per column, of records none of which is ``None``.

        Raises:
            WrongValueError: when a record is not of this kind.
        """

    @abstractmethod
    def records_of(self, columns: Sequence[list[Any]]) -> list[Any]:
        """The records of columns that are equally long (and at least one)."""

    @abstractmethod
    def fields_of(self, record: object) -> Sequence[Any]:
        """The values of the fields of a coerced record."""

    @abstractmethod
    def build(self, values: Sequence[object]) -> Any:
        """The record of coerced values of its fields."""

    def encode_columns(self, records: Sequence[object]) -> list[pa.Array]:
        """One array per column, of records none of which is ``None``."""
        return self.arrays_of(self.columns_of(records))

    def arrays_of(self, columns: Columns) -> list[pa.Array]:
        """One array per column, of what :meth:`columns_of` gave."""
        fields = zip(self.arrow_fields, self._columns, columns, strict=True)
        return [_encode_field(field.name, handler, column) for field, handler, column in fields]

    def decode_columns(self, arrays: Sequence[pa.Array]) -> list[Any]:
        """The records of one array per column."""
        return self.records_of([handler.decode(array) for handler, array in zip(self._columns, arrays, strict=True)])

    def encode_present(self, values: Sequence[object]) -> pa.Array:
        return pa.StructArray.from_arrays(self.encode_columns(values), fields=self.arrow_fields)

    def decode_present(self, array: pa.Array) -> list[Any]:
        return self.decode_columns(array.flatten())

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        mask = self.unreadable_columns(array.flatten())
        if mask is None or not array.null_count:
            return mask
        mask = mask & valid_mask(array)  # fields of a record that is not there are null, whatever their types
        return mask if mask.any() else None

    def unreadable_columns(self, arrays: Sequence[pa.Array]) -> Mask | None:
        """Do as :meth:`unreadable` does, of one array per column."""
        return any_of([handler.unreadable(array) for handler, array in zip(self._columns, arrays, strict=True)])

    def explained_present(self, array: pa.Array) -> WrongValueError:
        return self.explained_columns(array.flatten())

    def explained_columns(self, arrays: Sequence[pa.Array]) -> WrongValueError:
        """Do as :meth:`explained` does, of one array per column."""
        columns = zip(self.arrow_fields, self._columns, arrays, strict=True)
        field, handler, array = next(column for column in columns if column[1].unreadable(column[2]) is not None)
        return handler.explained(array).inside(f", field {field.name!r}")

    def add_field_checks(self, source: CheckSource, conditions: list[str], values: Sequence[str]) -> str:
        """The conditions, and one for each field, given the expressions of their values."""
        checks = map(source.or_none, self.fields, values)
        return " and ".join([*conditions, *checks])

    def coerce_fields(self, values: Sequence[object]) -> Any:
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

    def columns_of(self, records: Sequence[object]) -> Columns:
        if set(map(type, records)) - {tuple}:
            records = [self._as_tuple(record) for record in records]
        return columns_by_position(records, len(self.fields), self._expected)

    def records_of(self, columns: Sequence[list[Any]]) -> list[Any]:
        return list(zip(*columns, strict=True))

    def _as_tuple(self, record: object) -> tuple[Any, ...]:
        if isinstance(record, tuple | list):
            return tuple(record)
        if isinstance(record, Row) and record.get_row_kind() is RowKind.INSERT:
            return tuple(record)
        raise WrongValueError(record, self._expected)

    def fields_of(self, record: Any) -> Sequence[Any]:
        values: Sequence[Any] = record
        return values

    def build(self, values: Sequence[object]) -> Any:
        return tuple(values)

    def add_check(self, source: CheckSource, value: str) -> str:
        first, record = source.bind(value)
        size = len(self.fields)
        conditions = [f"type({first}) is {source.name_of(self.tuple_class)}", f"len({record}) == {size}"]
        return self.add_field_checks(source, conditions, [f"{record}[{position}]" for position in range(size)])

    def coerce_fast(self, value: Any) -> Any:
        is_tuple = type(value) is tuple or type(value) is self.tuple_class
        return self.coerce_fields(value) if is_tuple else NOT_COERCED

    def text_of_present(self, value: object) -> str:
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

    def columns_of(self, records: Sequence[object]) -> Columns:
        check_classes(records, {tuple}, self.tuple_class, self._expected)
        return columns_by_position(records, len(self.fields), self._expected)

    def records_of(self, columns: Sequence[list[Any]]) -> list[Any]:
        # Not through the class's own __new__: as with pickle, a record is restored, not made anew.
        return list(map(tuple.__new__, repeat(self.tuple_class), zip(*columns, strict=True)))

    def build(self, values: Sequence[object]) -> Any:
        return tuple.__new__(self.tuple_class, values)

    def text_of_present(self, value: object) -> str:
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

    def build(self, values: Sequence[object]) -> Any:
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


def check_classes(records: Sequence[object], also: set[type], declared: type, expected: str) -> None:
    """Refuse records that are neither of a declared class, nor of one that is this one brought to this process twice.

    Raises:
        WrongValueError: for one that is of another class.
    """
    for kind in set(map(type, records)) - {declared} - also:
        if kind.__qualname__ != declared.__qualname__ or kind.__module__ != declared.__module__:
            wrong = next(record for record in records if type(record) is kind)
            raise WrongValueError(wrong, expected)


def _encode_field(name: str, handler: TypeHandler, column: Sequence[object]) -> pa.Array:
    try:
        return handler.encode(column)
    except WrongValueError as error:
        raise error.inside(f", field {name!r}") from error


_MISSING: Final = object()
"""In place of a field that an instance does not have; it fits no type that has a column."""


class DataclassHandler(RecordHandler):
    """Instances of a dataclass: the values of its fields."""

    __slots__ = ("_class", "_expected", "_getters", "_names")

    info: DataclassTypeInfo

    def __init__(self, info: DataclassTypeInfo, fields: Sequence[TypeHandler]) -> None:
        self._class = info.record_class
        self._names = info.names
        self._getters = [attrgetter(name) for name in info.names]
        self._expected = (
            f"an instance of {info.class_name} itself with all its fields (declare Types.PICKLED_BYTE_ARRAY()"
            " for a mixture of classes)"
        )
        super().__init__(info, fields)

    @cached_property
    def _make(self) -> Callable[..., list[Any]]:
        return self._construct if _is_plain(self._class) else self._restore

    @cached_property
    def _extras(self) -> set[str]:
        return _unstored_attributes(self._class)

    def columns_of(self, records: Sequence[object]) -> Columns:
        check_classes(records, set(), self._class, self._expected)
        if records:
            self._check_attributes(records[0])
        try:
            return [list(map(getter, records)) for getter in self._getters]
        except AttributeError as error:
            raise WrongValueError(records[0], self._expected) from error

    def records_of(self, columns: Sequence[list[Any]]) -> list[Any]:
        return self._make(columns)

    def fields_of(self, record: object) -> Sequence[Any]:
        return [getter(record) for getter in self._getters]

    def build(self, values: Sequence[object]) -> Any:
        return self._restore([[value] for value in values])[0]

    def _check_attributes(self, record: object) -> None:
        """Finds the class whose ``__post_init__`` sets what is no field; one record is enough to see it."""
        extra = getattr(record, "__dict__", {}).keys() - set(self._names) - self._extras
        if extra:
            raise WrongValueError(
                record,
                f"made of the fields of {self._class.__qualname__} alone: {sorted(extra)[0]!r} is no field and would be"
                " lost (declare it as field(init=False))",
            )

    def _construct(self, columns: Sequence[list[Any]]) -> list[Any]:
        return list(map(self._class, *columns))

    def _restore(self, columns: Sequence[list[Any]]) -> list[Any]:
        # As with pickle: neither __init__ nor __post_init__ run again on values that they have produced already.
        records = list(map(object.__new__, repeat(self._class, len(columns[0]))))
        for name, column in zip(self._names, columns, strict=True):
            deque(map(object.__setattr__, records, repeat(name), column), maxlen=0)
        return records

    def add_check(self, source: CheckSource, value: str) -> str:
        first, record = source.bind(value)
        missing = source.name_of(_MISSING)
        conditions = [f"type({first}) is {source.name_of(self._class)}"]
        return self.add_field_checks(
            source, conditions, [f"getattr({record}, {name!r}, {missing})" for name in self._names]
        )


def _is_plain(cls: type) -> bool:
    """Return whether the constructor only sets the fields, in order; it is then the fastest way to an instance.

    Frozen classes are not plain: their constructor calls ``object.__setattr__`` for each field, more slowly than it
    can be done for a whole column.
    """
    owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
    params = vars(owner).get("__dataclass_params__")
    if params is None or not params.init or params.frozen or hasattr(cls, "__post_init__"):
        return False
    own_ways = [vars(base).keys() & {"__new__", "__setattr__"} for base in cls.__mro__[:-1]]
    return not any(own_ways) and type(cls).__call__ is type.__call__ and _takes_fields_in_order(cls)


def _takes_fields_in_order(cls: Any) -> bool:
    parameters = inspect.signature(cls).parameters.values()
    by_position = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    return by_position and [parameter.name for parameter in parameters] == [f.name for f in dataclasses.fields(cls)]


def _unstored_attributes(cls: type) -> set[str]:
    """Attributes of an instance that may be lost, since they are computed on access."""
    return {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, cached_property)}


_KINDS: Final = tuple(RowKind)
_INSERT_ID: Final = id(RowKind.INSERT)
_names_of: Final = attrgetter("_fields")
_values_of: Final = attrgetter("_values")
_kind_of: Final = attrgetter("_row_kind")


class _KindHandler(IntegerHandler):
    """Handles the kinds of rows, as the values of ``RowKind``."""

    __slots__ = ()

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        numbers = array.fill_null(0).to_numpy()
        found: Mask = (numbers < 0) | (numbers >= len(_KINDS))
        return found if found.any() else None

    def explained_present(self, array: pa.Array) -> WrongValueError:
        return WrongValueError(array[0].as_py(), f"a kind of row from 0 to {len(_KINDS) - 1}")


_KIND_HANDLER: Final = _KindHandler(BasicTypeInfo(BasicType.BYTE, nullable=False))


class RowHandler(RecordHandler):
    """ROW: rows; tuples and lists by position, dicts by name (a missing key is ``None``, an unknown one wrong).

    A kind other than INSERT has a column of its own where the type says so, and is refused elsewhere.

    Args:
        info: the type.
        fields: the handlers of the fields.
    """

    __slots__ = ("_changelog", "_expected", "_known", "_names")
    none_text = "null"

    _refuses_changes: ClassVar[bool] = True

    info: RowTypeInfo | DetachedTypeInfo

    def __init__(self, info: RowTypeInfo | DetachedTypeInfo, fields: Sequence[TypeHandler]) -> None:
        self._names = info.field_names
        self._known = {None, self._names}
        self._changelog = isinstance(info, RowTypeInfo) and info.changelog
        self._expected = f"a Row of {len(self._names)} values, for {info}"
        super().__init__(info, fields)
        if self._changelog:
            self._columns = (*self.fields, _KIND_HANDLER)

    def columns_of(self, records: Sequence[object]) -> Columns:
        return self._columns_of_rows(self._as_rows(records))

    def _columns_of_rows(self, rows: Sequence[Row]) -> Columns:
        columns = columns_by_position(list(map(_values_of, rows)), len(self._names), self._expected)
        if self._changelog:
            return [*columns, [kind.value for kind in map(_kind_of, rows)]]
        if self._refuses_changes and (kinds := kinds_of_rows(rows)) is not None:
            wrong = rows[int(np.flatnonzero(kinds)[0])]
            raise WrongValueError(wrong, "an INSERT row (Types.ROW(..., changelog=True) keeps row kinds)")
        return columns

    def _as_rows(self, records: Sequence[Any]) -> Sequence[Row]:
        if set(map(type, records)) - {Row} or set(map(_names_of, records)) - self._known:
            return [self._as_row(record) for record in records]
        return records

    def records_of(self, columns: Sequence[list[Any]]) -> list[Any]:
        names = self._names
        if not self._changelog:
            return make_rows(names, zip(*columns, strict=True), len(columns[0]))
        *fields, kinds = columns
        return [make_row(names, values, _KINDS[kind]) for *values, kind in zip(*fields, kinds, strict=True)]

    def fields_of(self, record: Any) -> Sequence[Any]:
        values: Sequence[Any] = record._values
        return values

    def build(self, values: Sequence[object]) -> Any:
        return make_row(self._names, values)

    def _as_row(self, record: object) -> Row:
        if isinstance(record, Row):
            fields = _names_of(record)
            values = record if fields is None else self._by_name(record, dict(zip(fields, record, strict=True)))
            return make_row(None, list(values), record.get_row_kind())
        if isinstance(record, tuple | list):
            return make_row(None, record)
        if isinstance(record, Mapping):
            return make_row(None, self._by_name(record, record))
        raise WrongValueError(record, self._expected)

    def _by_name(self, record: object, named: Mapping[str, object]) -> list[Any]:
        unknown = [name for name in named if name not in self._names]
        if unknown or (isinstance(record, Row) and len(named) != len(self._names)):
            raise WrongValueError(record, f"a Row with the fields {', '.join(self._names)}")
        return [named.get(name) for name in self._names]

    def add_check(self, source: CheckSource, value: str) -> str:
        first, record = source.bind(value)
        first_values, values = source.bind(f"{record}._values")
        conditions = [
            f"type({first}) is {source.name_of(Row)}",
            f"{record}._fields == {source.name_of(self._names)}",
            f"len({first_values}) == {len(self._names)}",
        ]
        if self._refuses_changes and not self._changelog:
            conditions.append(f"{record}._row_kind is {source.name_of(RowKind.INSERT)}")
        positions = range(len(self._names))
        return self.add_field_checks(source, conditions, [f"{values}[{position}]" for position in positions])

    def coerce_fast(self, value: object) -> Any:
        if type(value) is tuple:
            return self.coerce_fields(value)
        if type(value) is not Row or value._fields not in self._known:
            return NOT_COERCED
        is_refused = self._refuses_changes and value._row_kind is not RowKind.INSERT
        return NOT_COERCED if is_refused else self.coerce_fields(value._values)

    def text_of_present(self, value: object) -> str:
        return f"{_kind_text(value)}[{self.joined_texts(', ', value)}]"

    def printed(self, value: Any) -> str:
        return self.none_text if value is None else f"{_kind_text(value)}[{','.join(map(str, value))}]"


class StreamRowHandler(RowHandler):
    """ROW as the record of a stream: what it does in a changelog is no part of its columns, it lies beside them."""

    __slots__ = ()

    _refuses_changes = False

    def encode_with_kinds(self, records: Sequence[object]) -> tuple[list[pa.Array], Kinds | None]:
        """One array per column, and the kinds of the rows; None where all are insertions."""
        rows = self._as_rows(records)
        return self.arrays_of(self._columns_of_rows(rows)), kinds_of_rows(rows)

    def decode_with_kinds(self, arrays: Sequence[pa.Array], kinds: Kinds) -> list[Row]:
        """The rows of one array per column."""
        rows: list[Row] = self.decode_columns(arrays)
        for index in np.flatnonzero(kinds).tolist():
            rows[index].set_row_kind(_KINDS[kinds[index]])
        return rows

    def coerce(self, value: object, subject: str = "the value") -> Any:
        coerced = super().coerce(value, subject)
        if coerced is not value and isinstance(value, Row):
            coerced.set_row_kind(value.get_row_kind())
        return coerced


class DetachedHandler(RowHandler):
    """Records of which only the description was read: named rows, written as Python writes them."""

    __slots__ = ()
    none_text = "None"

    def text_of_present(self, value: object) -> str:
        return str(value)

    def printed(self, value: object) -> str:
        return self.text(value)


def kinds_of_rows(rows: Sequence[Row]) -> Kinds | None:
    """Return what rows do in a changelog, as values of ``RowKind``; None where all are insertions."""
    # By identity, since hashing an enum's member is a call of Python code.
    if not set(map(id, map(_kind_of, rows))) - {_INSERT_ID}:
        return None
    return np.fromiter((kind.value for kind in map(_kind_of, rows)), np.int8, len(rows))


def _kind_text(row: object) -> str:
    return str(row.get_row_kind() if hasattr(row, "get_row_kind") else RowKind.INSERT)
