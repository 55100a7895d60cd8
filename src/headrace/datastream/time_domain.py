"""``TimeDomain``, under PyFlink's module path."""

from headrace.common.public_module import public_module
from headrace.operators.timer_service import TimeDomain

__all__ = ["TimeDomain"]

public_module(__name__)
