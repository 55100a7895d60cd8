"""Estimated sizes of rows, which decide between plans: those of Flink's planner."""

from __future__ import annotations

from typing import Final

from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.table.logical.schema import Schema

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
    roots = [kind.root if isinstance(kind, AtomicType) else None for kind in schema.types]
    return sum(_OTHER_SIZE if root is None else _SIZES.get(root, _OTHER_SIZE) for root in roots)
