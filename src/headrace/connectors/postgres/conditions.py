"""Conditions that PostgreSQL checks, so that it sends fewer rows.

It may send rows that do not meet a condition, and must send all that do. So conditions are left out of which the
database thinks otherwise than the program: on columns whose values are rounded, cut or padded when they are read, and
on the order of texts, which depends on collations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common.logical_types import MAX_LENGTH, AtomicType, LogicalType, TypeRoot
from headrace.connectors.conditions import Combination, Comparison, Condition, NullCheck
from headrace.connectors.postgres.server import quoted

if TYPE_CHECKING:
    from headrace.connectors.postgres.server import Connection

_WHOLE: Final = frozenset((20, 21, 23))
_READ_AS_THEY_ARE: Final[Mapping[TypeRoot, frozenset[int]]] = {
    TypeRoot.BOOLEAN: frozenset((16,)),
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT), _WHOLE),
    TypeRoot.FLOAT: frozenset((700,)),
    TypeRoot.DOUBLE: frozenset((701,)),
    TypeRoot.DECIMAL: _WHOLE | {1700},
    TypeRoot.DATE: frozenset((1082,)),
    TypeRoot.TIMESTAMP: frozenset((1114,)),
    TypeRoot.VARCHAR: frozenset((25, 1043)),
}
"""The types, by their ids, whose values stay what they are when they are read."""

_TYPES: Final = {
    TypeRoot.BOOLEAN: "boolean",
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT), "bigint"),
    TypeRoot.FLOAT: "real",
    TypeRoot.DOUBLE: "double precision",
    TypeRoot.DECIMAL: "numeric",
    TypeRoot.DATE: "date",
    TypeRoot.TIMESTAMP: "timestamp",
    **dict.fromkeys((TypeRoot.CHAR, TypeRoot.VARCHAR), "text"),
}
"""The types of constants."""

_NUMBERS: Final = frozenset({"bigint", "double precision", "numeric"})
_MICROSECONDS: Final = 6
_NUMERIC: Final = re.compile(r"numeric\(\d+,(\d+)\)")


@dataclass(frozen=True, slots=True)
class ConditionWriter:
    """Writes conditions in the SQL of a database.

    Attributes:
        connection: a connection to it.
        known: the id and the name of the type of each column.
        read_as: the types that columns are read as.
    """

    connection: Connection
    known: Mapping[str, tuple[int, str, str]]
    read_as: Mapping[str, LogicalType]

    def written(self, conditions: Sequence[Condition]) -> list[str]:
        """Those of some conditions that the database can check."""
        return [text for text in map(self._text, conditions) if text is not None]

    def _text(self, condition: Condition) -> str | None:
        if isinstance(condition, NullCheck):
            return f"{quoted(condition.column)} IS {'' if condition.is_null else 'NOT '}NULL"
        if isinstance(condition, Combination):
            parts = [self._text(each) for each in condition.parts]
            texts = [text for text in parts if text is not None]
            return f"({f' {condition.word} '.join(texts)})" if len(texts) == len(parts) else None
        return self._comparison(condition) if isinstance(condition, Comparison) else None

    def _comparison(self, condition: Comparison) -> str | None:
        root, value = _root_of(condition.kind), condition.constant.as_py()
        kind = None if root is None else _TYPES.get(root)
        if kind is None or not self._is_comparable(condition.column, kind) or not self._is_sendable(value):
            return None
        name = quoted(condition.column)
        if kind == "text":
            if condition.operator not in ("=", "<>"):
                return None
            # Texts that a collation holds for equal may differ, and are no fewer for it
            name = name if condition.operator == "=" else f'{name} COLLATE "C"'
        return f"{name} {condition.operator} {self._literal(value)}::{kind}"

    def _is_comparable(self, column: str, kind: str) -> bool:
        """Return whether the database compares a column with constants of a type as the program does."""
        read_as, (type_id, shown, _) = self.read_as[column], self.known[column]
        if not isinstance(read_as, AtomicType) or type_id not in _READ_AS_THEY_ARE.get(read_as.root, ()):
            return False
        root, own = read_as.root, _TYPES[read_as.root]
        if not (kind == own or {kind, own} <= _NUMBERS):
            return False
        if root is TypeRoot.VARCHAR:
            return read_as.size == MAX_LENGTH
        if root is TypeRoot.TIMESTAMP:
            return read_as.size == _MICROSECONDS
        if type_id == 1700:
            scale = _NUMERIC.fullmatch(shown)
            return scale is not None and int(scale[1]) <= (read_as.scale or 0)
        return True

    def _is_sendable(self, value: Any) -> bool:
        """Return whether the database can have a value."""
        if isinstance(value, str):
            is_of_all = self.connection.info.parameter_status("server_encoding") == "UTF8"
            return "\0" not in value and (is_of_all or value.isascii())
        return value is not None and (not isinstance(value, float) or math.isfinite(value))

    def _literal(self, value: Any) -> str:
        from psycopg.sql import Literal

        return Literal(value).as_string(self.connection)


def _root_of(kind: LogicalType) -> TypeRoot | None:
    return kind.root if isinstance(kind, AtomicType) else None
