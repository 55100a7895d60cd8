"""``TimerService``, under PyFlink's module path."""

from headrace.common.public_module import public_module
from headrace.operators.timer_service import TimerService

__all__ = ["TimerService"]

public_module(__name__)
