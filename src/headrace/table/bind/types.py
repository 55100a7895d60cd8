"""Binding of data types to logical types."""

from typing import Final

from headrace.common.errors import InvalidTypeError
from headrace.common.logical_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    IntervalType,
    IntervalUnit,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    RowType,
    StructuredType,
    TypeRoot,
)
from headrace.table.bind.errors import SqlPlanError, invalid
from headrace.table.functions.types import with_nullability
from headrace.table.parse.dialects import type_advice
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.types import (
    AtomicTypeSpec,
    CollectionTypeSpec,
    IntervalQualifier,
    IntervalTypeSpec,
    MapTypeSpec,
    NamedTypeSpec,
    RawTypeSpec,
    RowTypeSpec,
    TimeUnit,
    TypeSpec,
    TypeWord,
)

_ROOTS: Final = {word: TypeRoot(word.value) for word in TypeWord if word.value in {root.value for root in TypeRoot}}
_UNBOUNDED: Final = {TypeWord.STRING: TypeRoot.VARCHAR, TypeWord.BYTES: TypeRoot.VARBINARY}

_UNITS: Final = {
    (TimeUnit.YEAR, None): IntervalUnit.YEAR,
    (TimeUnit.YEAR, TimeUnit.MONTH): IntervalUnit.YEAR_TO_MONTH,
    (TimeUnit.MONTH, None): IntervalUnit.MONTH,
    (TimeUnit.QUARTER, None): IntervalUnit.MONTH,
    (TimeUnit.WEEK, None): IntervalUnit.DAY,
    (TimeUnit.DAY, None): IntervalUnit.DAY,
    (TimeUnit.DAY, TimeUnit.HOUR): IntervalUnit.DAY_TO_HOUR,
    (TimeUnit.DAY, TimeUnit.MINUTE): IntervalUnit.DAY_TO_MINUTE,
    (TimeUnit.DAY, TimeUnit.SECOND): IntervalUnit.DAY_TO_SECOND,
    (TimeUnit.HOUR, None): IntervalUnit.HOUR,
    (TimeUnit.HOUR, TimeUnit.MINUTE): IntervalUnit.HOUR_TO_MINUTE,
    (TimeUnit.HOUR, TimeUnit.SECOND): IntervalUnit.HOUR_TO_SECOND,
    (TimeUnit.MINUTE, None): IntervalUnit.MINUTE,
    (TimeUnit.MINUTE, TimeUnit.SECOND): IntervalUnit.MINUTE_TO_SECOND,
    (TimeUnit.SECOND, None): IntervalUnit.SECOND,
}
_MOST_DIGITS: Final = {TypeRoot.DECIMAL: 38, TypeRoot.TIME: 3, TypeRoot.TIMESTAMP: 9, TypeRoot.TIMESTAMP_LTZ: 9}
"""The maximum precisions: of more digits that are written, so many are kept, as in Flink."""


class TypeBinder:
    """Binds the data types of a text."""

    def __init__(self, source: SqlSource) -> None:
        self._source = source

    def bind(self, spec: TypeSpec) -> LogicalType:
        """The type; nullable unless NOT NULL is written.

        Raises:
            SqlValidationError: when there is no such type.
            SqlPlanError: when there is one, and it is not supported.
        """
        try:
            kind = self._kind(spec)
        except InvalidTypeError as error:
            raise invalid(self._source, spec, str(error)) from None
        return with_nullability(kind, spec.nullable is not False)

    def _kind(self, spec: TypeSpec) -> LogicalType:
        if isinstance(spec, AtomicTypeSpec):
            return self._atomic(spec)
        if isinstance(spec, CollectionTypeSpec):
            element = self.bind(spec.element)
            return MultisetType(element) if spec.is_multiset else ArrayType(element)
        if isinstance(spec, MapTypeSpec):
            return MapType(self.bind(spec.key), self.bind(spec.value))
        if isinstance(spec, RowTypeSpec):
            return self._row(spec)
        if isinstance(spec, IntervalTypeSpec):
            return interval_type(spec.qualifier)
        if isinstance(spec, RawTypeSpec):
            if "." in spec.class_name:
                reason = f"values of the Java class '{spec.class_name}' cannot be read"
                raise invalid(self._source, spec, reason, "Write BYTES.")
            return RawType(spec.class_name)
        assert isinstance(spec, NamedTypeSpec)
        raise invalid(self._source, spec, f"unknown type '{spec.path}'", type_advice(str(spec.path)))

    def _row(self, spec: RowTypeSpec) -> LogicalType:
        names = tuple(field.name.text for field in spec.fields)
        types = tuple(self.bind(field.type) for field in spec.fields)
        if spec.class_name is not None:
            return StructuredType(spec.class_name, names, types)
        comments = tuple(field.comment for field in spec.fields)
        return RowType(names, types, comments if any(comment is not None for comment in comments) else ())

    def _atomic(self, spec: AtomicTypeSpec) -> LogicalType:
        if spec.word in _UNBOUNDED:
            return AtomicType(_UNBOUNDED[spec.word], MAX_LENGTH)
        root = _ROOTS.get(spec.word)
        if root is None:
            advice = "Write FLOAT." if spec.word is TypeWord.REAL else None
            reason = f"the type {spec.word.value} is not supported"
            raise SqlPlanError(reason, self._source, spec.start, spec.end, advice)
        if spec.size is None and root in (TypeRoot.VARCHAR, TypeRoot.VARBINARY):
            return AtomicType(root, MAX_LENGTH)
        most = _MOST_DIGITS.get(root)
        size = spec.size if most is None or spec.size is None else min(spec.size, most)
        return AtomicType(root, size, spec.scale)


def interval_type(qualifier: IntervalQualifier) -> IntervalType:
    """The type of an interval with these fields."""
    unit = _UNITS.get((qualifier.first, qualifier.last), IntervalUnit.DAY_TO_SECOND)
    text = unit.value
    precision = qualifier.precision if qualifier.precision is not None and "{0}" in text else 2
    fraction = qualifier.fraction if qualifier.fraction is not None and "{1}" in text else 6
    return IntervalType(unit, precision, fraction)
