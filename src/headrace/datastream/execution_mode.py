"""``RuntimeExecutionMode``, under PyFlink's module path."""

from __future__ import annotations

from headrace.common.execution_mode import RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]
