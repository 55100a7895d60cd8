"""A source of generated records."""

from __future__ import annotations

from headrace.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]
