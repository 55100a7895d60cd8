"""How records are taken apart into columns and put together again: one class per kind of record."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Final

from headrace.common.columns.codec import WrongValueError
from headrace.common.row import Row, RowKind, make_row, make_rows
from headrace.common.typeinfo import (
    CompositeTypeInfo,
    DataclassTypeInfo,
    DetachedTypeInfo,
    DictTypeInfo,
    NamedTupleTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)

Columns = list[Sequence[Any]]


class Shape(ABC):
    """Takes records of one kind apart and puts them together."""

    __slots__ = ()

    @abstractmethod
    def columns(self, records: Sequence[Any]) -> Columns:
        """One sequence of values per column, of records none of which is ``None``.

        Raises:
            WrongValueError: when a record is not of this kind.
        """

    @abstractmethod
    def records(self, columns: Sequence[list[Any]]) -> list[Any]:
        """The records of columns that are equally long."""


def _by_position(records: Sequence[Any], count: int, expected: str) -> Columns:
    # One pass per column is ten times as fast as zip(*records), which makes an iterator for each record.
    if set(map(len, records)) - {count}:
        wrong = next(record for record in records if len(record) != count)
        raise WrongValueError(wrong, f"{expected}; it has {len(wrong)} values")
    return [list(map(itemgetter(index), records)) for index in range(count)]


class TupleShape(Shape):
    """Tuples; lists and insertion rows are taken as tuples."""

    __slots__ = ("_count", "_expected")

    def __init__(self, info: TupleTypeInfo) -> None:
        self._count = len(info.types)
        self._expected = f"a tuple of {self._count} values, for {info}"

    def columns(self, records: Sequence[Any]) -> Columns:
        if set(map(type, records)) - {tuple}:
            records = [self._as_tuple(record) for record in records]
        return _by_position(records, self._count, self._expected)

    def records(self, columns: Sequence[list[Any]]) -> list[Any]:
        return list(zip(*columns, strict=True))

    def _as_tuple(self, record: Any) -> tuple[Any, ...]:
        if isinstance(record, tuple | list):
            return tuple(record)
        if isinstance(record, Row) and record.get_row_kind() is RowKind.INSERT:
            return tuple(record)
        raise WrongValueError(record, self._expected)


class NamedTupleShape(Shape):
    """Instances of a named tuple class; plain tuples are taken as such."""

    __slots__ = ("_class", "_count", "_expected")

    def __init__(self, info: NamedTupleTypeInfo) -> None:
        self._class = info.record_class
        self._count = len(info.types)
        self._expected = f"an instance of {info.class_name} or a tuple of {self._count} values"

    def columns(self, records: Sequence[Any]) -> Columns:
        for kind in set(map(type, records)) - {tuple, self._class}:
            if not _same_class(kind, self._class):
                wrong = next(record for record in records if type(record) is kind)
                raise WrongValueError(wrong, self._expected)
        return _by_position(records, self._count, self._expected)

    def records(self, columns: Sequence[list[Any]]) -> list[Any]:
        # Not through the class's own __new__: as with pickle, a record is restored, not made anew.
        return list(map(tuple.__new__, repeat(self._class), zip(*columns, strict=True)))


class DataclassShape(Shape):
    """Instances of a dataclass: the values of its fields."""

    __slots__ = ("_class", "_expected", "_extras", "_getters", "_make", "_names")

    def __init__(self, info: DataclassTypeInfo) -> None:
        self._class = info.record_class
        self._names = info.names
        self._getters = [attrgetter(name) for name in info.names]
        self._make: Callable[..., list[Any]] = self._construct if _is_plain(self._class) else self._restore
        self._expected = (
            f"an instance of {info.class_name} itself with all its fields (declare Types.PICKLED_BYTE_ARRAY()"
            " for a mixture of classes)"
        )
        self._extras = _unstored_attributes(self._class)

    def columns(self, records: Sequence[Any]) -> Columns:
        for kind in set(map(type, records)) - {self._class}:
            if not _same_class(kind, self._class):
                wrong = next(record for record in records if type(record) is kind)
                raise WrongValueError(wrong, self._expected)
        if records:
            self._check_attributes(records[0])
        try:
            return [list(map(getter, records)) for getter in self._getters]
        except AttributeError as error:
            raise WrongValueError(records[0], self._expected) from error

    def records(self, columns: Sequence[list[Any]]) -> list[Any]:
        return self._make(columns)

    def _check_attributes(self, record: Any) -> None:
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
            _exhaust(map(object.__setattr__, records, repeat(name), column))
        return records


class DictShape(Shape):
    """Dicts with the same string keys."""

    __slots__ = ("_expected", "_names")

    def __init__(self, info: DictTypeInfo) -> None:
        self._names = info.names
        self._expected = f"a dict with the keys {', '.join(map(repr, info.names))} and no others"

    def columns(self, records: Sequence[Any]) -> Columns:
        for record in records if set(map(type, records)) - {dict} else ():
            if not isinstance(record, Mapping):
                raise WrongValueError(record, self._expected)
        if set(map(len, records)) - {len(self._names)}:
            raise WrongValueError(records[0], self._expected)
        try:
            return [list(map(itemgetter(name), records)) for name in self._names]
        except KeyError as error:
            raise WrongValueError(records[0], self._expected) from error

    def records(self, columns: Sequence[list[Any]]) -> list[Any]:
        return list(map(dict, map(zip, repeat(self._names), zip(*columns, strict=True))))


_KINDS: Final = tuple(RowKind)
_INSERT_ID: Final = id(RowKind.INSERT)
_FIELDS_OF: Final = attrgetter("_fields")
_VALUES_OF: Final = attrgetter("_values")
_KIND_OF: Final = attrgetter("_row_kind")


class RowShape(Shape):
    """Rows; tuples and lists are taken by position, dicts by name (a missing key is ``None``, an unknown one wrong)."""

    __slots__ = ("_changelog", "_expected", "_known", "_names", "_row_fields")

    def __init__(self, info: RowTypeInfo | DetachedTypeInfo) -> None:
        self._names = info.field_names
        self._row_fields = info.field_names
        self._known = {None, self._names}
        self._changelog = isinstance(info, RowTypeInfo) and info.changelog
        self._expected = f"a Row of {len(self._names)} values, for {info}"

    def columns(self, records: Sequence[Any]) -> Columns:
        if set(map(type, records)) - {Row} or set(map(_FIELDS_OF, records)) - self._known:
            records = [self._as_row(record) for record in records]
        columns = _by_position(list(map(_VALUES_OF, records)), len(self._names), self._expected)
        if self._changelog:
            return [*columns, [kind.value for kind in map(_KIND_OF, records)]]
        # By identity, since hashing an enum's member is a call of Python code.
        if set(map(id, map(_KIND_OF, records))) - {_INSERT_ID}:
            raise WrongValueError(records[0], "an INSERT row (Types.ROW(..., changelog=True) keeps row kinds)")
        return columns

    def records(self, columns: Sequence[list[Any]]) -> list[Any]:
        names = self._row_fields
        if not self._changelog:
            return make_rows(names, zip(*columns, strict=True), len(columns[0]))
        *fields, kinds = columns
        return [make_row(names, values, _KINDS[kind]) for *values, kind in zip(*fields, kinds, strict=True)]

    def _as_row(self, record: Any) -> Row:
        if isinstance(record, Row):
            fields = _FIELDS_OF(record)
            values = record if fields is None else self._by_name(record, dict(zip(fields, record, strict=True)))
            return make_row(None, list(values), record.get_row_kind())
        if isinstance(record, tuple | list):
            return make_row(None, record)
        if isinstance(record, Mapping):
            return make_row(None, self._by_name(record, record))
        raise WrongValueError(record, self._expected)

    def _by_name(self, record: Any, named: Mapping[str, Any]) -> list[Any]:
        unknown = [name for name in named if name not in self._names]
        if unknown or (isinstance(record, Row) and len(named) != len(self._names)):
            raise WrongValueError(record, f"a Row with the fields {', '.join(self._names)}")
        return [named.get(name) for name in self._names]


def _same_class(kind: type, declared: type) -> bool:
    """Whether two classes are one that was brought to this process twice."""
    return kind.__qualname__ == declared.__qualname__ and kind.__module__ == declared.__module__


def _is_plain(cls: type) -> bool:
    """Whether the constructor does nothing but set the fields, in order; it is then the fastest way to an instance.

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
    """Attributes of an instance that may be lost, since they are computed when asked for."""
    return {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, cached_property)}


def _exhaust(iterator: Iterable[Any]) -> None:
    deque(iterator, maxlen=0)


_SHAPES: Final[dict[type[CompositeTypeInfo], Callable[[Any], Shape]]] = {
    TupleTypeInfo: TupleShape,
    NamedTupleTypeInfo: NamedTupleShape,
    DataclassTypeInfo: DataclassShape,
    DictTypeInfo: DictShape,
    RowTypeInfo: RowShape,
    DetachedTypeInfo: RowShape,
}


def shape_of(info: CompositeTypeInfo) -> Shape:
    """The shape of a composite type's records."""
    return _SHAPES[type(info)](info)
