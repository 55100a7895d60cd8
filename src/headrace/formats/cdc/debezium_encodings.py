"""Values as Debezium encodes them unless told otherwise: days, units of time, bytes of decimals."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common.typeinfo import BasicType, BasicTypeInfo
from headrace.formats.bad_records import BadValueError
from headrace.formats.json.documents import JsonNumber, is_spelled_whole, text_of

if TYPE_CHECKING:
    from headrace.common.typeinfo import RowTypeInfo

NANOS: Final = {"ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds per unit of time."""

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_DAY: Final = 86_400
_DATES: Final = frozenset({None, "io.debezium.time.Date", "org.apache.kafka.connect.data.Date"})
_UNITS: Final = {
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Time": "ms",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_ENCODED: Final = {
    BasicType.SQL_DATE, BasicType.SQL_TIME, BasicType.SQL_TIMESTAMP, BasicType.TIMESTAMP_LTZ, BasicType.INSTANT,
    BasicType.BIG_DEC,
}  # fmt: skip
_ZONED: Final = {BasicType.TIMESTAMP_LTZ, BasicType.INSTANT}
_MOST_DIGITS: Final = 19
"""Numbers of 64 bits have no more."""


@dataclass(frozen=True, slots=True)
class DebeziumEncodings:
    """Puts what fields are in other formats in place of what Debezium writes: ``"2026-01-31"`` for ``20484``.

    Attributes:
        row_type: the type of the rows.
        time_unit: the unit of times whose schema does not come with them: ``ms``, ``us`` or ``ns``; None where no such
            times are expected.
        schema_include: whether messages have a schema and a payload.
    """

    row_type: RowTypeInfo
    time_unit: str | None
    schema_include: bool

    def __call__(self, document: Any) -> Any:
        """The document with other values.

        Raises:
            BadValueError: when a value has no such meaning.
        """
        payload = _member(document, "payload") if self.schema_include else document
        schema = _member(document, "schema") if self.schema_include else None
        for name in ("before", "after"):
            row = _member(payload, name)
            if not isinstance(row, dict):
                continue
            described = _fields_of(_fields_of(schema).get(name))
            try:
                row.update(self._decoded(row, described))
            except BadValueError as error:
                raise error.inside(f"payload.{name}" if self.schema_include else name) from error
        return document

    def _decoded(self, row: Mapping[str, Any], described: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self._field(name, row[name], kind.basic_type, described.get(name))
            for name, kind in zip(self.row_type.field_names, self.row_type.field_types, strict=True)
            if isinstance(kind, BasicTypeInfo) and kind.basic_type in _ENCODED and row.get(name) is not None
        }

    def _field(self, name: str, value: Any, kind: BasicType, described: Any) -> Any:
        try:
            if kind == BasicType.BIG_DEC:
                return _decimal(value, described)
            return self._time(value, kind, described) if isinstance(value, JsonNumber) else value
        except BadValueError as error:
            raise error.inside(name) from error

    def _time(self, number: JsonNumber, kind: BasicType, described: Any) -> str:
        meaning = _name_in(described, "name")
        if not is_spelled_whole(number) or len(number.lstrip("-")) > _MOST_DIGITS:
            raise BadValueError(number, f"a whole number of 64 bits, for {kind.name}")
        if kind == BasicType.SQL_DATE:
            return _date(number, meaning)
        unit = _UNITS.get(meaning or "", self.time_unit)
        if unit is None:
            raise BadValueError(
                number,
                f"a value of {kind.name}: a number needs a unit, which its schema tells (schema_include=True), or "
                'time_unit="ms", say, of the schema that reads',
            )
        seconds, nanos = divmod(int(number) * NANOS[unit], 1_000_000_000)
        if kind == BasicType.SQL_TIME and not 0 <= seconds < _DAY:
            raise BadValueError(number, f"a time of day in {unit}")
        text = f"{_moment(number, seconds).isoformat()}.{nanos:09}"
        return text[11:] if kind == BasicType.SQL_TIME else f"{text}Z" if kind in _ZONED else text


def _date(number: JsonNumber, meaning: str | None) -> str:
    if meaning not in _DATES:
        raise BadValueError(number, f"a date, but {meaning}")
    return _moment(number, int(number) * _DAY).date().isoformat()


def _moment(number: JsonNumber, seconds: int) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        raise BadValueError(number, "in the years 1 to 9999") from None


def _decimal(value: Any, described: Any) -> Any:
    """A decimal of its digits as bytes, which have the scale in their schema or beside them."""
    if isinstance(value, dict):
        digits, scale = _member(value, "value"), _member(value, "scale")
    elif _member(described, "name") == _DECIMAL:
        digits, scale = value, _member(_member(described, "parameters"), "scale")
    else:
        return value
    try:
        unscaled = int.from_bytes(base64.b64decode(digits, validate=True), signed=True)
        return JsonNumber(f"{unscaled}e{-int(scale)}")
    except (TypeError, ValueError):
        raise BadValueError(text_of(value), "a decimal: bytes in Base64, and their scale") from None


def _fields_of(schema: Any) -> dict[str, Any]:
    """The fields of a struct of Kafka Connect by their names."""
    fields = _member(schema, "fields")
    return {_name_in(field, "field") or "": field for field in fields} if isinstance(fields, list) else {}


def _name_in(document: Any, member: str) -> str | None:
    """A member that is a name; None where it is anything else."""
    name = _member(document, member)
    return name if isinstance(name, str) else None


def _member(document: Any, name: str) -> Any:
    """A member of an object; None of anything else."""
    return document.get(name) if isinstance(document, dict) else None
