"""A source of generated records."""

from __future__ import annotations

from headrace.connectors.datagen.rate import RateLimiterStrategy
from headrace.connectors.datagen.source import DataGeneratorSource

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]
