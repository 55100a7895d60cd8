"""The handler of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from headrace.common.row import Row, RowKind, make_row, make_rows
from headrace.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo
from headrace.common.values.handler import NOT_COERCED, TypeHandler, WrongValueError
from headrace.common.values.numbers import IntegerHandler
from headrace.common.values.records import Columns, RecordHandler, columns_by_position

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from headrace.common.typeinfo import DetachedTypeInfo
    from headrace.common.values.checks import CheckSource
    from headrace.common.values.handler import Mask

    Kinds = npt.NDArray[np.int8]

_KINDS: Final = tuple(RowKind)
_INSERT_ID: Final = id(RowKind.INSERT)
_names_of: Final = attrgetter("_fields")
_values_of: Final = attrgetter("_values")
_kind_of: Final = attrgetter("_row_kind")


class _KindHandler(IntegerHandler):
    """What rows do, as the values of ``RowKind``."""

    __slots__ = ()

    def unreadable(self, array: pa.Array) -> Mask | None:
        numbers = array.fill_null(-1).to_numpy()
        found: Mask = (numbers < 0) | (numbers >= len(_KINDS))
        return found if found.any() else None

    def explained(self, array: pa.Array) -> WrongValueError:
        return WrongValueError(array[0].as_py(), f"a kind of row from 0 to {len(_KINDS) - 1}")


_KIND_HANDLER: Final = _KindHandler(BasicTypeInfo(BasicType.BYTE))


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

    def columns_of(self, records: Sequence[Any]) -> Columns:
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

    def build(self, values: Sequence[Any]) -> Any:
        return make_row(self._names, values)

    def _as_row(self, record: Any) -> Row:
        if isinstance(record, Row):
            fields = _names_of(record)
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

    def coerce_fast(self, value: Any) -> Any:
        if type(value) is tuple:
            return self.coerce_fields(value)
        if type(value) is not Row or value._fields not in self._known:
            return NOT_COERCED
        is_refused = self._refuses_changes and value._row_kind is not RowKind.INSERT
        return NOT_COERCED if is_refused else self.coerce_fields(value._values)

    def text_of_present(self, value: Any) -> str:
        return f"{_kind_text(value)}[{self.joined_texts(', ', value)}]"

    def printed(self, value: Any) -> str:
        return self.none_text if value is None else f"{_kind_text(value)}[{','.join(map(str, value))}]"


class StreamRowHandler(RowHandler):
    """ROW as the record of a stream: what it does in a changelog is no part of its columns, it lies beside them."""

    __slots__ = ()

    _refuses_changes = False

    def encode_with_kinds(self, records: Sequence[Any]) -> tuple[list[pa.Array], Kinds | None]:
        """One array per column, and the kinds of the rows; None where all are insertions."""
        rows = self._as_rows(records)
        return self.arrays_of(self._columns_of_rows(rows)), kinds_of_rows(rows)

    def decode_with_kinds(self, arrays: Sequence[pa.Array], kinds: Kinds) -> list[Row]:
        """The rows of one array per column."""
        rows: list[Row] = self.decode_columns(arrays)
        for index in np.flatnonzero(kinds).tolist():
            rows[index].set_row_kind(_KINDS[kinds[index]])
        return rows

    def coerce(self, value: Any, subject: str = "the value") -> Any:
        coerced = super().coerce(value, subject)
        if coerced is not value and isinstance(value, Row):
            coerced.set_row_kind(value.get_row_kind())
        return coerced


class DetachedHandler(RowHandler):
    """Records of which only the description was read: named rows, written as Python writes them."""

    __slots__ = ()
    none_text = "None"

    def text_of_present(self, value: Any) -> str:
        return str(value)

    def printed(self, value: Any) -> str:
        return self.text(value)


def kinds_of_rows(rows: Sequence[Row]) -> Kinds | None:
    """What rows do in a changelog, as values of ``RowKind``; None where all are insertions."""
    # By identity, since hashing an enum's member is a call of Python code.
    if not set(map(id, map(_kind_of, rows))) - {_INSERT_ID}:
        return None
    return np.fromiter((kind.value for kind in map(_kind_of, rows)), np.int8, len(rows))


def _kind_text(row: Any) -> str:
    return str(row.get_row_kind() if hasattr(row, "get_row_kind") else RowKind.INSERT)
