"""``Row``: a record whose fields are reached by position or by name."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from itertools import repeat
from typing import Any

from headrace.common.errors import InvalidTypeError
from headrace.common.public_module import public_module

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """The kind of a row in a changelog: an insertion, an update or a deletion.

    Examples:
        >>> from headrace.common import Row, RowKind
        >>> row = Row.of_kind(RowKind.DELETE, "ann", 3)
        >>> str(row.get_row_kind())
        '-D'
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SYMBOLS[self]


_SYMBOLS = {
    RowKind.INSERT: "+I",
    RowKind.UPDATE_BEFORE: "-U",
    RowKind.UPDATE_AFTER: "+U",
    RowKind.DELETE: "-D",
}
_INSERT = RowKind.INSERT


def symbols_of(kinds: Iterable[int]) -> str:
    """The changes among some values of :class:`RowKind`, as messages show them: ``-U, +U``; each is named once."""
    found = {int(kind) for kind in kinds} - {_INSERT.value}
    return ", ".join(str(RowKind(kind)) for kind in sorted(found))


class Row:
    """A record with values and, perhaps, names for them.

    A row of a type without names, ``Types.ROW([...])``, has Flink's names ``f0``, ``f1``, … when a function gets it.

    Two rows are equal when kind, names and values are; the order of the names does not matter, and ``f0``, ``f1``, … in
    this order are as good as none. (In PyFlink such rows are equal but hash differently, here their hashes agree.) A
    field whose name is also that of a method, or begins with an underscore, is reached as ``row["..."]``.

    Examples:
        >>> from headrace.common import Row
        >>> row = Row(name="Alice", age=11)
        >>> row["name"], row.age, row[1]
        ('Alice', 11, 11)
        >>> row.age = row["age"] + 1
        >>> "name" in row  # with names, `in` looks among the names
        True
        >>> Row("Alice", 11)[0]  # by position only
        'Alice'
        >>> Person = Row("name", "age")  # a row of strings called like a class ...
        >>> Person("Bob", 12)  # ... makes rows with these names
        Row(name='Bob', age=12)
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: tuple[str, ...] | None
    _row_kind: RowKind
    _values: list[Any]

    def __init__(self, *args: object, **kwargs: object) -> None:
        if not kwargs:
            _set_fields(self, None)
            _set_values(self, list(args))
        elif args:
            raise InvalidTypeError("a Row takes its values either by position or by name, not both")
        else:
            _set_fields(self, tuple(kwargs))
            _set_values(self, list(kwargs.values()))
        _set_row_kind(self, _INSERT)

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> "Row":
        """A row of that kind."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """The values by name; with ``recursive``, rows within lists, dicts and fields become dicts as well.

        Raises:
            InvalidTypeError: when the row has no names.
        """
        if self._fields is None:
            raise InvalidTypeError(f"{self!r} has no field names, so it cannot become a dict: call set_field_names")
        values = map(_plain, self._values) if recursive else self._values
        return dict(zip(self._fields, values, strict=True))

    def get_row_kind(self) -> RowKind:
        """Return what the row does in a changelog."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Sets what the row does in a changelog."""
        _set_row_kind(self, row_kind)

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Gives the values names.

        Raises:
            InvalidTypeError: when there are not as many names as values, or one comes twice.
        """
        names = tuple(field_names)
        if len(names) != len(self._values) or len(set(names)) != len(names):
            raise InvalidTypeError(f"a row of {len(self._values)} values needs as many different names, not {names}")
        _set_fields(self, names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """The values of the named fields in that order; all values when the row has no names.

        Raises:
            InvalidTypeError: when there is no such field.
        """
        fields = self._fields
        if fields is None or fields == tuple(names):
            return list(self._values)
        missing = [name for name in names if name not in fields]
        if missing:
            raise InvalidTypeError(f"the row has no field {missing[0]!r}: its fields are {', '.join(fields)}")
        return [self._values[fields.index(name)] for name in names]

    def __call__(self, *args: Any) -> "Row":
        if len(args) != len(self._values):
            raise InvalidTypeError(f"{self!r} names {len(self._values)} fields but got {len(args)} values")
        row = Row(*args)
        row.set_field_names(self._values)
        _set_row_kind(row, self._row_kind)
        return row

    def __getitem__(self, key: int | slice | str) -> Any:
        try:  # by position, which is what hot code does
            return self._values[key]  # type: ignore[index]
        except TypeError:
            return self._values[self._position(key)]

    def __setitem__(self, key: int | slice | str, value: Any) -> None:
        self._values[self._position(key)] = value

    def _position(self, key: object) -> Any:
        if not isinstance(key, str):
            return key
        fields = self._fields
        if fields is None or key not in fields:
            known = f"its fields are {', '.join(fields)}" if fields else "its fields have no names"
            raise KeyError(f"the row has no field {key!r}: {known}")
        return fields.index(key)

    def __getattr__(self, name: str) -> Any:
        # Only asked when there is no such attribute. Names with an underscore are looked up by copy and pickle on
        # instances that are not initialised yet.
        if name.startswith("_"):
            raise AttributeError(name)
        fields = self._fields
        if fields is None or name not in fields:
            known = f"its fields are {', '.join(fields)}" if fields else "its fields have no names"
            raise AttributeError(f"the row has no field {name!r}: {known}")
        return self._values[fields.index(name)]

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self._fields
        if fields is None or name not in fields:
            known = f"its fields are {', '.join(fields)}" if fields else "its fields have no names: write row[0] = ..."
            raise AttributeError(f"the row has no field {name!r}: {known}")
        if name.startswith("_") or hasattr(Row, name):
            raise AttributeError(f"the field {name!r} is reached as row[{name!r}]")
        self._values[fields.index(name)] = value

    def __contains__(self, item: object) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or self._row_kind is not other._row_kind:
            return False
        if self._fields == other._fields:
            return self._values == other._values
        if len(self._values) != len(other._values):
            return False
        if self._fields is None or other._fields is None:
            return self._is_by_position() and other._is_by_position() and self._values == other._values
        return self.as_dict() == other.as_dict()

    def _is_by_position(self) -> bool:
        """Return whether there are no names, or those that stand for none."""
        return self._fields is None or self._fields == _positional(len(self._fields))

    def __hash__(self) -> int:
        if self._fields is None:
            return hash(tuple(self._values))
        positional = _positional(len(self._fields))
        if set(self._fields) == set(positional):
            return hash(tuple(self.get_fields_by_names(positional)))
        return hash(frozenset(zip(self._fields, self._values, strict=True)))

    def __repr__(self) -> str:
        kind = "" if self._row_kind is _INSERT else f"{self._row_kind} "
        if self._fields is None:
            return f"<{kind}Row({', '.join(map(repr, self._values))})>"
        pairs = zip(self._fields, self._values, strict=True)
        return f"{kind}Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return make_row, (self._fields, self._values, self._row_kind)


# `__setattr__` is for the users' fields: what a row consists of is set by the slots' own setters, which are in C.
_set_fields, _set_row_kind, _set_values = (Row.__dict__[slot].__set__ for slot in Row.__slots__)


@lru_cache(maxsize=256)
def _positional(count: int) -> tuple[str, ...]:
    """The names that stand for none: ``f0``, ``f1``, and so on."""
    return tuple(f"f{index}" for index in range(count))


def make_row(fields: tuple[str, ...] | None, values: Sequence[object], row_kind: RowKind = RowKind.INSERT) -> Row:
    """A row of names that are known to be good; nothing is checked."""
    row = Row.__new__(Row)
    _set_fields(row, fields)
    _set_values(row, list(values))
    _set_row_kind(row, row_kind)
    return row


def make_rows(fields: tuple[str, ...] | None, values: Iterable[Sequence[object]], count: int) -> list[Row]:
    """Many INSERT rows of names that are known to be good, made without a call of Python code for each."""
    rows = list(map(Row.__new__, repeat(Row, count)))
    # A deque of length 0 exhausts an iterator in C.
    deque(map(_set_fields, rows, repeat(fields)), 0)
    deque(map(_set_row_kind, rows, repeat(_INSERT)), 0)
    deque(map(_set_values, rows, map(list, values)), 0)
    return rows


def _plain(value: object) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(element) for key, element in value.items()}
    return value


public_module(__name__)
