"""A source of consecutive numbers."""

from __future__ import annotations

from headrace.connectors.sequence.source import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
