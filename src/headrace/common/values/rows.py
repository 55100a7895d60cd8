"""The handler of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from headrace.common.row import Row, RowKind, make_row, make_rows
from headrace.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo
from headrace.common.values.handler import NOT_COERCED, TypeHandler, WrongValueError
from headrace.common.values.numbers import IntegerHandler
from headrace.common.values.records import Columns, RecordHandler, columns_by_position

if TYPE_CHECKING:
    from headrace.common.typeinfo import DetachedTypeInfo
    from headrace.common.values.checks import CheckSource

_KINDS: Final = tuple(RowKind)
_KIND_HANDLER: Final = IntegerHandler(BasicTypeInfo(BasicType.BYTE))
_INSERT_ID: Final = id(RowKind.INSERT)
_names_of: Final = attrgetter("_fields")
_values_of: Final = attrgetter("_values")
_kind_of: Final = attrgetter("_row_kind")


class RowHandler(RecordHandler):
    """ROW: rows; tuples and lists by position, dicts by name (a missing key is ``None``, an unknown one wrong).

    Args:
        info: the type.
        fields: the handlers of the fields.
    """

    __slots__ = ("_changelog", "_expected", "_known", "_names")
    none_text = "null"

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
        if set(map(type, records)) - {Row} or set(map(_names_of, records)) - self._known:
            records = [self._as_row(record) for record in records]
        columns = columns_by_position(list(map(_values_of, records)), len(self._names), self._expected)
        if self._changelog:
            return [*columns, [kind.value for kind in map(_kind_of, records)]]
        # By identity, since hashing an enum's member is a call of Python code.
        if set(map(id, map(_kind_of, records))) - {_INSERT_ID}:
            raise WrongValueError(records[0], "an INSERT row (Types.ROW(..., changelog=True) keeps row kinds)")
        return columns

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
        if not self._changelog:
            conditions.append(f"{record}._row_kind is {source.name_of(RowKind.INSERT)}")
        positions = range(len(self._names))
        return self.add_field_checks(source, conditions, [f"{values}[{position}]" for position in positions])

    def coerce_fast(self, value: Any) -> Any:
        if type(value) is tuple:
            return self.coerce_fields(value)
        if type(value) is Row and value._row_kind is RowKind.INSERT and value._fields in self._known:
            return self.coerce_fields(value._values)
        return NOT_COERCED

    def text_of_present(self, value: Any) -> str:
        return f"{_kind_text(value)}[{self.joined_texts(', ', value)}]"

    def printed(self, value: Any) -> str:
        return self.none_text if value is None else f"{_kind_text(value)}[{','.join(map(str, value))}]"


class DetachedHandler(RowHandler):
    """Records of which only the description was read: named rows, written as Python writes them."""

    __slots__ = ()
    none_text = "None"

    def text_of_present(self, value: Any) -> str:
        return str(value)

    def printed(self, value: Any) -> str:
        return self.text(value)


def _kind_text(row: Any) -> str:
    return str(row.get_row_kind() if hasattr(row, "get_row_kind") else RowKind.INSERT)
