"""A source of consecutive numbers."""

from __future__ import annotations

from headrace.connectors.sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
