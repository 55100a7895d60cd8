"""``TimeDomain``, under PyFlink's module path."""

from __future__ import annotations

from headrace.time.time_domain import TimeDomain

__all__ = ["TimeDomain"]
