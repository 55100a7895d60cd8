"""``RuntimeExecutionMode``, under PyFlink's module path."""

from headrace.common.options import RuntimeExecutionMode
from headrace.common.public_module import public_module

__all__ = ["RuntimeExecutionMode"]

public_module(__name__)
