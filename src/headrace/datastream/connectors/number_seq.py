"""A source of consecutive numbers."""

from headrace.common.public_module import public_module
from headrace.connectors.ranges import NumberSequenceSource

__all__ = ["NumberSequenceSource"]

public_module(__name__)
