"""``ExecutionConfig``, under PyFlink's module path.

It is part of ``headrace.datastream``, which builds on this package: it is looked up on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.public_module import public_module

if TYPE_CHECKING:
    from headrace.datastream.execution_config import ExecutionConfig

__all__ = ["ExecutionConfig"]

public_module(__name__, {"ExecutionConfig": "headrace.datastream.execution_config"})
