"""Data types, units and intervals."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, NoReturn

from headrace.table.parse.cursor import TokenCursor
from headrace.table.parse.diagnosis import A_TYPE, A_UNIT, A_UNIT_OF_INTERVALS
from headrace.table.parse.dialects import type_advice
from headrace.table.parse.tokens import INTEGER, STRING
from headrace.table.parse.tree.types import (
    AtomicTypeSpec,
    CollectionTypeSpec,
    IntervalQualifier,
    IntervalTypeSpec,
    MapTypeSpec,
    NamedTypeSpec,
    RawTypeSpec,
    RowTypeField,
    RowTypeSpec,
    TimeUnit,
    TypeSpec,
    TypeWord,
)

_NONE: Final = 0
_SIZE: Final = 1
_SIZE_AND_SCALE: Final = 2

_ATOMIC: Final = {
    "BOOLEAN": (TypeWord.BOOLEAN, _NONE),
    "TINYINT": (TypeWord.TINYINT, _NONE),
    "SMALLINT": (TypeWord.SMALLINT, _NONE),
    "INT": (TypeWord.INT, _NONE),
    "INTEGER": (TypeWord.INT, _NONE),
    "BIGINT": (TypeWord.BIGINT, _NONE),
    "FLOAT": (TypeWord.FLOAT, _NONE),
    "REAL": (TypeWord.REAL, _NONE),
    "DOUBLE": (TypeWord.DOUBLE, _NONE),
    "GEOMETRY": (TypeWord.GEOMETRY, _NONE),
    "STRING": (TypeWord.STRING, _NONE),
    "BYTES": (TypeWord.BYTES, _NONE),
    "DATE": (TypeWord.DATE, _NONE),
    "VARIANT": (TypeWord.VARIANT, _NONE),
    "BITMAP": (TypeWord.BITMAP, _NONE),
    "DECIMAL": (TypeWord.DECIMAL, _SIZE_AND_SCALE),
    "DEC": (TypeWord.DECIMAL, _SIZE_AND_SCALE),
    "NUMERIC": (TypeWord.DECIMAL, _SIZE_AND_SCALE),
    "ANY": (TypeWord.ANY, _SIZE_AND_SCALE),
    "CHAR": (TypeWord.CHAR, _SIZE),
    "CHARACTER": (TypeWord.CHAR, _SIZE),
    "VARCHAR": (TypeWord.VARCHAR, _SIZE),
    "BINARY": (TypeWord.BINARY, _SIZE),
    "VARBINARY": (TypeWord.VARBINARY, _SIZE),
    "TIME": (TypeWord.TIME, _SIZE),
    "TIMESTAMP": (TypeWord.TIMESTAMP, _SIZE),
    "TIMESTAMP_LTZ": (TypeWord.TIMESTAMP_LTZ, _SIZE),
}
"""Types by keyword, each with the number of parameters that it can have in parentheses."""

_VARYING: Final = {TypeWord.CHAR: TypeWord.VARCHAR, TypeWord.BINARY: TypeWord.VARBINARY}

UNITS: Final = {unit.value: unit for unit in TimeUnit}
_ODBC_UNITS: Final = {
    f"SQL_TSI_{name}": TimeUnit[name]
    for name in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
}
"""Other names of units in TIMESTAMPADD and TIMESTAMPDIFF."""
INTERVAL_UNITS: Final = {
    form: unit
    for unit in (
        TimeUnit.YEAR,
        TimeUnit.QUARTER,
        TimeUnit.MONTH,
        TimeUnit.WEEK,
        TimeUnit.DAY,
        TimeUnit.HOUR,
        TimeUnit.MINUTE,
        TimeUnit.SECOND,
    )
    for form in (unit.value, f"{unit.value}S")
}
"""The units of intervals, which may be in the plural."""

_SMALLER: Final = {
    TimeUnit.YEAR: (TimeUnit.MONTH,),
    TimeUnit.DAY: (TimeUnit.HOUR, TimeUnit.MINUTE, TimeUnit.SECOND),
    TimeUnit.HOUR: (TimeUnit.MINUTE, TimeUnit.SECOND),
    TimeUnit.MINUTE: (TimeUnit.SECOND,),
}


class TypeParser(TokenCursor):
    """Parses data types with Flink's extensions: nullability, comments of fields, and angle brackets."""

    __slots__ = ()

    def integer(self) -> int:
        """Parse an integer."""
        if not self.at(INTEGER):
            self.fail(INTEGER)
        return int(self.advance().text)

    def optional_size(self) -> int | None:
        """``(n)``, or nothing."""
        if not self.accept("("):
            return None
        size = self.integer()
        self.expect(")")
        return size

    # --- types -------------------------------------------------------------------------------------------------------

    def data_type(self, *, may_say_null: bool = True) -> TypeSpec:
        """A type, with ``ARRAY`` and ``MULTISET`` as suffixes, and ``[NOT] NULL`` where it is allowed."""
        start = self.start
        self.deeper()
        found = self._type_without_null(start)
        self._depth -= 1
        if may_say_null:
            return self._with_null(found)
        while self.at_any(("ARRAY", "MULTISET")):
            is_multiset = self.advance().kind == "MULTISET"
            found = CollectionTypeSpec(None, found, is_multiset, start=start, end=self.end)
        return found

    def _with_null(self, found: TypeSpec) -> TypeSpec:
        while True:
            nullable = self._nullability()
            if nullable is not None:
                found = _saying(found, nullable, self.end)
            if not self.at_any(("ARRAY", "MULTISET")):
                return found
            is_multiset = self.advance().kind == "MULTISET"
            found = CollectionTypeSpec(None, found, is_multiset, start=found.start, end=self.end)

    def _nullability(self) -> bool | None:
        if self.accept("NULL"):
            return True
        return False if self.accept_all("NOT", "NULL") else None

    def _type_without_null(self, start: int) -> TypeSpec:
        if self.at_any(_ATOMIC):
            return self._atomic(start)
        form = _FORMS.get(self.kind)
        if form is not None and (self.ahead() == "<" or self.kind != "MAP"):
            return form(self, start)
        if not self.at_name():
            self.fail(A_TYPE)
        token = self.token
        path = self.path()
        if self.at("("):
            self.refuse(f"unknown type '{path}'", type_advice(str(path)), token)
        return NamedTypeSpec(None, path, start=start, end=self.end)

    def _atomic(self, start: int) -> TypeSpec:
        word, numbers = _ATOMIC[self.advance().kind]
        if word is TypeWord.DOUBLE:
            self.accept("PRECISION")
        if word in _VARYING and self.accept("VARYING"):
            word = _VARYING[word]
        size = scale = None
        if not numbers and self.at("("):
            self.refuse(f"{word.value} has no length or precision", f"Write {word.value}.")
        if numbers and self.accept("("):
            size = self.integer()
            if numbers == _SIZE_AND_SCALE and self.accept(","):
                scale = self.integer()
            self.expect(")")
        if word in (TypeWord.TIME, TypeWord.TIMESTAMP):
            word = self._time_zone(word)
        elif word in (TypeWord.CHAR, TypeWord.VARCHAR) and self.accept_all("CHARACTER", "SET"):
            self.name()
        return AtomicTypeSpec(None, word, size, scale, start=start, end=self.end)

    def _time_zone(self, word: TypeWord) -> TypeWord:
        if self.accept("WITHOUT"):
            self.expect("TIME", "ZONE")
        elif self.at("WITH") and self.ahead() in ("LOCAL", "TIME"):
            self.advance()
            self.expect("LOCAL", "TIME", "ZONE")
            if word is TypeWord.TIME:
                self.refuse("there is no TIME WITH LOCAL TIME ZONE", "Write TIME, or TIMESTAMP_LTZ.")
            return TypeWord.TIMESTAMP_LTZ
        return word

    def _collection(self, start: int) -> TypeSpec:
        is_multiset = self.advance().kind == "MULTISET"
        self.expect("<")
        element = self.data_type()
        self.expect(">")
        return CollectionTypeSpec(None, element, is_multiset, start=start, end=self.end)

    def _map(self, start: int) -> TypeSpec:
        self.advance()
        self.expect("<")
        key = self.data_type()
        self.expect(",")
        value = self.data_type()
        self.expect(">")
        return MapTypeSpec(None, key, value, start=start, end=self.end)

    def _row(self, start: int) -> TypeSpec:
        self.advance()
        fields: tuple[RowTypeField, ...] = ()
        if not self.accept("<>"):
            close = ">" if self.accept("<") else ")"
            if close == ")":
                self.expect("(")
            if not self.at(close):
                fields = self.some(self._row_field)
            self.expect(close)
        return RowTypeSpec(None, fields, start=start, end=self.end)

    def _structured(self, start: int) -> TypeSpec:
        self.advance()
        self.expect("<")
        class_name = self.text()
        fields = []
        while self.accept(","):
            fields.append(self._row_field())
        self.expect(">")
        return RowTypeSpec(None, tuple(fields), class_name, start=start, end=self.end)

    def _row_field(self) -> RowTypeField:
        name = self.name()
        kind = self.data_type()
        comment = self.text() if self.at(STRING) else None
        return RowTypeField(name, kind, comment, start=name.start, end=self.end)

    def _raw(self, start: int) -> TypeSpec:
        self.advance()
        self.expect("(")
        class_name = self.text()
        self.expect(",")
        serializer = self.text()
        self.expect(")")
        return RawTypeSpec(None, class_name, serializer, start=start, end=self.end)

    def interval_type(self) -> TypeSpec:
        """``INTERVAL`` and the fields, as in casts."""
        start = self.start
        self.expect("INTERVAL")
        qualifier = self.interval_qualifier()
        return IntervalTypeSpec(None, qualifier, start=start, end=self.end)

    # --- units and intervals -----------------------------------------------------------------------------------------

    def unit(self) -> TimeUnit:
        """A unit in the singular."""
        if not self.at_any(UNITS):
            unit = _ODBC_UNITS.get(self.token.text.upper())
            if unit is None:
                self._refuse_unit()
            self.advance()
            return unit
        return UNITS[self.advance().kind]

    def _refuse_unit(self) -> NoReturn:
        text = self.token.text.upper()
        if text in INTERVAL_UNITS:
            advice = f"Write {INTERVAL_UNITS[text].value}."
            self.refuse(f"expected {A_UNIT}, as DAY or MINUTE, found {self.token.text}", advice)
        self.fail(A_UNIT, *UNITS)

    def interval_qualifier(self, *, may_have_two: bool = True) -> IntervalQualifier:
        """``DAY(3)``, and then ``TO SECOND(6)`` where two units are allowed."""
        start = self.start
        if not self.at_any(INTERVAL_UNITS):
            self.fail(A_UNIT_OF_INTERVALS, *INTERVAL_UNITS)
        first = INTERVAL_UNITS[self.advance().kind]
        precision = fraction = last = None
        if self.accept("("):
            precision = self.integer()
            if first is TimeUnit.SECOND and self.accept(","):
                fraction = self.integer()
            self.expect(")")
        smaller = {form: unit for form, unit in INTERVAL_UNITS.items() if unit in _SMALLER.get(first, ())}
        if may_have_two and smaller and self._has_last_unit(smaller):
            self.advance()
            last = self.choose(smaller)
            if last is TimeUnit.SECOND:
                fraction = self.optional_size()
        return IntervalQualifier(first, last, precision, fraction, start=start, end=self.end)

    def _has_last_unit(self, smaller: Collection[str]) -> bool:
        """Return whether ``TO`` and a smaller unit follow; another unit is that of ``FLOOR`` and ``CEIL``."""
        return self.at("TO") and (self.ahead() in smaller or self.ahead() not in UNITS)


_FORMS: Final[dict[str, Callable[[TypeParser, int], TypeSpec]]] = {
    "ARRAY": TypeParser._collection,
    "MULTISET": TypeParser._collection,
    "MAP": TypeParser._map,
    "ROW": TypeParser._row,
    "RAW": TypeParser._raw,
    "STRUCTURED": TypeParser._structured,
}
"""Parsers of composite types by their first word."""


def _saying(found: TypeSpec, nullable: bool, end: int) -> TypeSpec:
    return replace(found, nullable=nullable, end=end)
