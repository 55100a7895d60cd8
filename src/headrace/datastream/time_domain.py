"""``TimeDomain``, under PyFlink's module path."""

from __future__ import annotations

from headrace.operators.timer_service import TimeDomain

__all__ = ["TimeDomain"]
