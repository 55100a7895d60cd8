"""``RuntimeExecutionMode``, under PyFlink's module path."""

from __future__ import annotations

from headrace.common.options import RuntimeExecutionMode
from headrace.common.public_module import public_module

__all__ = ["RuntimeExecutionMode"]

public_module(__name__)
