"""Estimated numbers and sizes of rows, by which Flink's planner chooses between plans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from headrace.common.logical_types import AtomicType, IntervalType, LogicalType, TypeRoot
from headrace.operators.join.results import JoinType
from headrace.table.logical.scalars import Call, Scalar
from headrace.table.logical.schema import Schema
from headrace.table.physical.basic import Calc, TableSourceScan, ValuesScan
from headrace.table.physical.node import PhysicalNode

UNKNOWN_ROWS: Final = 1e8
"""The rows of a table without statistics."""
_OF_GROUPS: Final = 0.1
_SELECTIVITY: Final = {"=": 0.15, "<>": 0.85, "IS NULL": 0.1, "IS NOT NULL": 0.9, "LIKE": 0.25}
_OTHER_SELECTIVITY: Final = 0.5
_OF_PAIRS: Final = 0.15
_FIXED: Final = 8.0
_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_COMPACT_DIGITS: Final = 18
_COMPACT_FRACTION: Final = 3


def rows_of(node: PhysicalNode) -> float:
    """The rows that a node emits."""
    if isinstance(node, TableSourceScan):
        known = node.source.statistics
        return UNKNOWN_ROWS if known is None else float(known.rows)
    if isinstance(node, ValuesScan):
        return float(len(node.rows))
    if isinstance(kind := getattr(node, "kind", None), JoinType) and len(node.inputs) > 1:
        return rows_of_join(kind, *map(rows_of, node.inputs))
    given = sum(map(rows_of, node.inputs))
    if isinstance(node, Calc):
        return given * selectivity(node.condition)
    if (group := getattr(node, "group", None)) is not None:
        return given * _OF_GROUPS if group else 1.0
    limit = getattr(node, "limit", None)
    return given if limit is None else min(given, float(limit))


def rows_of_join(kind: JoinType, left: float, right: float) -> float:
    """The rows of a join, by those of its inputs."""
    if kind in (JoinType.SEMI, JoinType.ANTI):
        return left
    kept = (left if kind.right_is_optional else 0.0, right if kind.left_is_optional else 0.0)
    return max(_OF_PAIRS * (left + right), *kept)


def bytes_of(node: PhysicalNode) -> float:
    """The size of all rows that a node emits, as joins keep them."""
    return rows_of(node) * binary_size_of(node.schema.types)


def binary_size_of(types: Sequence[LogicalType]) -> float:
    """The bytes of a row in memory."""
    fixed = sum(_FIXED if _is_fixed(kind) else _FIXED + _OTHER_SIZE for kind in types)
    return fixed + _FIXED * ((len(types) + 71) // 64)


def _is_fixed(kind: LogicalType) -> bool:
    if not isinstance(kind, AtomicType) or kind.root in _TEXTS:
        return not isinstance(kind, AtomicType) and isinstance(kind, IntervalType)
    if kind.root is TypeRoot.DECIMAL:
        return (kind.size or 0) <= _COMPACT_DIGITS
    return kind.root not in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ) or (kind.size or 0) <= _COMPACT_FRACTION


def has_one_row(node: PhysicalNode) -> bool:
    """Return whether a node emits one row at most: an aggregate of all rows, or what is computed from it."""
    if isinstance(node, Calc):
        return has_one_row(node.input)
    return getattr(node, "group", None) == ()


def selectivity(condition: Scalar | None) -> float:
    """The part of the rows that meet a condition."""
    if condition is None:
        return 1.0
    if not isinstance(condition, Call):
        return _OTHER_SELECTIVITY
    parts = [selectivity(each) for each in condition.operands] if condition.function in {"AND", "OR", "NOT"} else []
    match condition.function:
        case "AND":
            return math.prod(parts)
        case "OR":
            return min(sum(parts), 1.0)
        case "NOT":
            return 1.0 - parts[0]
        case function:
            return _SELECTIVITY.get(function, _OTHER_SELECTIVITY)


_SIZES: Final = {
    **dict.fromkeys((TypeRoot.BOOLEAN, TypeRoot.TINYINT), 1.0),
    TypeRoot.SMALLINT: 2.0,
    **dict.fromkeys((TypeRoot.INTEGER, TypeRoot.FLOAT, TypeRoot.DATE, TypeRoot.TIME), 4.0),
    **dict.fromkeys((TypeRoot.BIGINT, TypeRoot.DOUBLE), 8.0),
}
_OTHER_SIZE: Final = 12.0
"""The bytes of texts, decimals and timestamps."""


def size_of(schema: Schema) -> float:
    """The bytes of a row."""
    return sent_size_of(schema.types)


def sent_size_of(types: Sequence[LogicalType]) -> float:
    """The bytes of a row of some types."""
    roots = [kind.root if isinstance(kind, AtomicType) else None for kind in types]
    return sum(_OTHER_SIZE if root is None else _SIZES.get(root, _OTHER_SIZE) for root in roots)
