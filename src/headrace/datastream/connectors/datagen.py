"""A source of generated records."""

from headrace.common.public_module import public_module
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]

public_module(__name__)
