"""``Row`` and ``RowKind``, under PyFlink's module path."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.common.row import Row, RowKind

__all__ = ["Row", "RowKind"]

public_module(__name__)
